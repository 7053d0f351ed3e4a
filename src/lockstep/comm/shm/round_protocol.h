#pragma once

#include <cstdint>

#include "lockstep/comm/shm/control_block.h"

namespace lockstep::shm {

/// A barrier that can be passed again and again. What a rank has stored before it, all ranks see after it.
///
/// Staged operations fill one of two buffers between two rounds while the others read the other one: whoever passes a
/// round knows that all have done with the buffer of the round before.
template <class Memory>
class RoundProtocol {
 public:
  explicit RoundProtocol(Memory& memory) : memory_(memory) {}

  template <class Call>
  void pass(const Call& call) {
    ++round_;
    memory_.publish(memory_.cell(memory_.rank()).round, round_, [this] { return all_there(); });
    memory_.await(
        call, [this] { return all_there(); }, [this](int rank) { return is_missing(rank); });
  }

 private:
  bool is_missing(int rank) { return memory_.load(memory_.cell(rank).round) < round_; }
  bool all_there() {
    for (int rank = 0; rank < memory_.world_size(); ++rank) {
      if (is_missing(rank)) return false;
    }
    return true;
  }

  Memory& memory_;
  std::uint64_t round_ = 0;
};

}  // namespace lockstep::shm
