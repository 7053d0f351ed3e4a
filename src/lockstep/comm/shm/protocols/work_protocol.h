#pragma once

#include <cstdint>

#include "lockstep/comm/shm/memory/control_block.h"

namespace lockstep::shm {

/// Keeps ranks out of each other's memory once a group has ended. A rank that wants to touch it sets its mark first,
/// and then checks whether the group lives. A rank that ends the group, or finds it ended, waits for those with a mark.
/// Sequentially consistent, so at least one of the two sees the other. Several threads of a rank may be inside at once:
/// each counts.
///
/// `Memory` is Group, or the model checker's.
template <class Memory>
class WorkProtocol {
 public:
  explicit WorkProtocol(Memory& memory) : memory_(memory) {}

  /// False if the group has ended: then nothing may be touched. Otherwise `end` must follow.
  bool begin() {
    memory_.fetch_add(memory_.cell(memory_.rank()).working, 1);
    if (memory_.load(memory_.header().broken) == 0) return true;
    end();
    return false;
  }
  void end() { memory_.fetch_add(memory_.cell(memory_.rank()).working, ~std::uint64_t{0}); }

  /// Ends the group; true if it had not ended before.
  bool break_group() {
    std::uint64_t whole = 0;
    return memory_.compare_exchange(memory_.header().broken, whole, static_cast<std::uint64_t>(memory_.rank()) + 1);
  }
  /// True while `rank` may touch memory of others. Valid once the group has ended.
  bool is_working(int rank) { return memory_.load(memory_.cell(rank).working) != 0; }

 private:
  Memory& memory_;
};

}  // namespace lockstep::shm
