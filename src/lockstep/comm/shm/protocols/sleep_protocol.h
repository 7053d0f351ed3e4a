#pragma once

#include <cstdint>

#include "lockstep/comm/shm/memory/control_block.h"

namespace lockstep::shm {

/// Waiting in the kernel without a lost wake-up. A waiter counts itself as a sleeper before its last check; a rank that
/// stores looks for sleepers afterwards. All four accesses are sequentially consistent, so at least one of the two sees
/// the other.
///
/// `Memory` is Group, or the model checker's.
template <class Memory>
class SleepProtocol {
 public:
  explicit SleepProtocol(Memory& memory) : memory_(memory) {}

  /// Stores a value that others wait for, and wakes them if `complete()` returns that a wait may be over. If the wait
  /// needs stores of several ranks, at least one of them sees all the others' stores and wakes the sleepers.
  template <class Complete>
  void publish(Word& word, std::uint64_t value, Complete&& complete) {
    memory_.store_in_order(word, value);
    if (memory_.load(memory_.header().sleepers) != 0 && complete()) wake_sleepers();
  }

  void wake_sleepers() {
    for (int rank = 0; rank < memory_.world_size(); ++rank) {
      RankCell& sleeper = memory_.cell(rank);
      if (memory_.load(sleeper.sleeping) == 0) continue;
      memory_.fetch_add(sleeper.bell, 1);
      memory_.wake_all(sleeper.bell);
    }
  }

  /// Sleeps until woken, unless `ready()`; it may return early. Returns the result of `ready()`.
  template <class Ready>
  bool sleep(Ready&& ready) {
    RankCell& mine = memory_.cell(memory_.rank());
    memory_.fetch_add(mine.sleeping, 1);
    memory_.fetch_add(memory_.header().sleepers, 1);
    const std::uint32_t seen = memory_.load(mine.bell);
    const bool over = ready();
    if (!over) memory_.wait_on(mine.bell, seen);
    memory_.fetch_add(memory_.header().sleepers, ~std::uint64_t{0});
    memory_.fetch_add(mine.sleeping, ~std::uint64_t{0});
    return over;
  }

 private:
  Memory& memory_;
};

}  // namespace lockstep::shm
