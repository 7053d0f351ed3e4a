#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "lockstep/detail/net/membership.h"
#include "lockstep/trace/rank_trace.h"

namespace lockstep {

/// How the ranks' parts of a trace come together, over the group's store.
class TraceParts {
 public:
  /// @param prefix  of the keys, unique in the group
  TraceParts(const Membership& membership, std::string prefix);

  /// Sees to it that all ranks trace the same, and that rank 0 can write. Collective.
  /// @param settings  compared with the other ranks'
  /// @param problem   of this rank, which keeps it from tracing; empty: there is none
  /// @throws Error  on every rank that takes part, naming the rank that does not, or its problem
  void agree(const std::string& settings, const std::string& problem, Deadline deadline);
  /// Makes this rank's part known to the others.
  void send(const RankTrace& part);
  /// The rank that writes the file: the lowest one that is not lost.
  int writer();
  struct Collected {
    std::vector<RankTrace> parts;
    std::vector<std::string> missing;  ///< why parts are missing or end early
  };
  /// The parts of all ranks that send one within `patience` and are not lost before.
  Collected collect(std::chrono::milliseconds patience);

 private:
  void compare(const std::string& settings, Deadline deadline);
  void wait_until_told();
  std::string key_of(const char* what, int rank) const;
  bool is_lost(int rank) const;

  Membership membership_;
  std::string prefix_;
};

}  // namespace lockstep
