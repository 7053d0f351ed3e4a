#pragma once

#include <cstdint>

namespace lockstep {

/// How many elements this process has given to collectives that reduce or gather, of all groups, since it started. Who
/// notices values of this rank alone can find out whether the program has brought the ranks' values together itself.
std::int64_t reduced_elements();
void note_reduced_elements(std::int64_t count);

/// What this thread notes while one exists does not count: Lockstep averages gradients, not the program.
class UncountedReductions {
 public:
  UncountedReductions();
  ~UncountedReductions();
  UncountedReductions(const UncountedReductions&) = delete;
  UncountedReductions& operator=(const UncountedReductions&) = delete;
};

}  // namespace lockstep
