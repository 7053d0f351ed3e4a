#pragma once

#include <cstdint>

#include "lockstep/comm/shm/memory/control_block.h"

namespace lockstep::shm {

/// A barrier that can be passed repeatedly. After it, all ranks see what each rank stored before it.
///
/// Staged operations fill one of two buffers between two rounds while the other ranks read the other buffer: a rank
/// that passes a round knows that all have finished with the buffer of the round before.
template <class Memory>
class RoundProtocol {
 public:
  explicit RoundProtocol(Memory& memory) : memory_(memory) {}

  template <class Call>
  void pass(const Call& call) {
    const std::uint64_t round = arrive();
    await(call, round);
  }

  /// The first half of `pass`: reports this rank's arrival, and returns the number of the round.
  std::uint64_t arrive() {
    const std::uint64_t round = ++round_;
    memory_.publish(memory_.cell(memory_.rank()).round, round, [this, round] { return all_there(round); });
    return round;
  }
  bool is_missing(std::uint64_t round, int rank) { return memory_.load(memory_.cell(rank).round) < round; }
  bool all_there(std::uint64_t round) {
    for (int rank = 0; rank < memory_.world_size(); ++rank) {
      if (is_missing(round, rank)) return false;
    }
    return true;
  }
  /// The second half of `pass`.
  template <class Call>
  void await(const Call& call, std::uint64_t round) {
    memory_.await(
        call, [&] { return all_there(round); }, [&](int rank) { return is_missing(round, rank); });
  }

 private:
  Memory& memory_;
  std::uint64_t round_ = 0;
};

}  // namespace lockstep::shm
