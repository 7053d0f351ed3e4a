#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "lockstep/detail/net/membership.h"

namespace lockstep {

/// When a rank whose operation does not end looks for the reason, reports to the others and asks the store. All of it
/// follows from how often it looks (`Membership::look_interval`, 50 ms unless a group says otherwise), and is rarer
/// with many ranks, because one thread serves the store.
class TalkTimes {
 public:
  using Milliseconds = std::chrono::milliseconds;

  explicit TalkTimes(const Membership& membership)
      : look_(std::max(Milliseconds(1), membership.look_interval)), ranks_(membership.world_size) {}

  /// Between two looks at the operations of this rank.
  Milliseconds look() const { return look_; }

  /// Operations that last longer than this are reported to the store, and the others' reports are read.
  Milliseconds slow() const { return 3 * look_; }

  /// Between two reports of a rank, and between two reads of the others' reports. It grows with the age of the
  /// operation and with the number of ranks. With the few requests that each rank then makes, all ranks together make
  /// some hundred per second, whether they are 40 or 4000.
  Milliseconds between_talks(Milliseconds age) const {
    const Milliseconds by_age(look_.count() * age.count() / 400);  // an eighth of the age, if it looks every 50 ms
    return std::max({4 * look_, Milliseconds(5 * ranks_), std::min(40 * look_, by_age)});
  }

  /// Between two requests for the list of lost ranks, if no connection shows losses.
  Milliseconds between_loss_looks() const { return std::max(look_, Milliseconds(2 * ranks_)); }

  /// Between two such requests while a rank finds out what broke its connections: which takes a second at most, once.
  Milliseconds between_cause_looks() const { return std::max({Milliseconds(1), look_ / 5, Milliseconds(ranks_ / 8)}); }

  /// Between two looks at what the store knows of ranks that have not arrived at the start of the group.
  Milliseconds between_start_looks() const { return std::max(5 * look_, Milliseconds(5 * ranks_)); }

  /// All ranks' states are read in one of this many rounds; the other rounds read only the states of late ranks. If
  /// each rank reads each rank's state, the cost grows with the square of their number.
  std::uint64_t talks_between_hearing_all() const { return static_cast<std::uint64_t>(ranks_ / 64) + 1; }

 private:
  Milliseconds look_;
  int ranks_;
};

}  // namespace lockstep
