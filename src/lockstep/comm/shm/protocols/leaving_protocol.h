#pragma once

#include <cstdint>

#include "lockstep/comm/shm/memory/control_block.h"

namespace lockstep::shm {

/// Memory that ranks use in turns and that is freed in between. In each turn every rank leaves it once, and the last
/// one frees it. All ranks pass a barrier (RoundProtocol) before any of them uses the memory again: the last one has
/// freed it by then, because it passes the barrier afterwards.
///
/// `Memory` is Group, or the model checker's.
template <class Memory>
class LeavingProtocol {
 public:
  explicit LeavingProtocol(Memory& memory) : memory_(memory) {}

  /// True on the one rank that leaves last. @param left  how often ranks have left; 0 at first, changed by nothing else
  bool leave(Word& left) {
    const auto ranks = static_cast<std::uint64_t>(memory_.world_size());
    return (memory_.fetch_add(left, 1) + 1) % ranks == 0;
  }

 private:
  Memory& memory_;
};

}  // namespace lockstep::shm
