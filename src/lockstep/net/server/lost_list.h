#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/net/store.h"

namespace lockstep {

/// The lost ranks of a job's generations, in the order in which they were lost.
class LostList {
 public:
  static constexpr int kAnyRound = -1;

  /// Adds a rank that is not on the list. If the rank is on the list, replaces its cause if `replace` is set, or if the
  /// rank was only silent before.
  void add(std::int64_t generation, int round, const LostRank& lost, bool replace);
  /// Removes a rank that was only silent.
  void heard_again(std::int64_t generation, int round, int rank);
  /// Removes a rank, whatever the cause: another process has taken its place.
  void replaced(std::int64_t generation, int round, int rank);
  /// Removes all ranks of a generation.
  void forget(std::int64_t generation);
  std::vector<LostRank> of(std::int64_t generation, int round) const;
  /// Lost ranks of all rounds.
  std::vector<LostRank> of(std::int64_t generation) const;

 private:
  struct Entry {
    std::int64_t generation = 0;
    int round = 0;
    LostRank lost;
  };
  std::vector<Entry> entries_;
};

}  // namespace lockstep
