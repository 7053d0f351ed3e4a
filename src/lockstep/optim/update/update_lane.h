#pragma once

#include <atomic>
#include <cstdint>

#include "lockstep/optim/kernels/undo_log.h"

namespace lockstep {

/// How far one lane of updates is: the elements that one thread updates, one after the other. Old values of a block are
/// kept until the next one is done (`update_with_undo`). If a rank is killed, at whatever access, another one takes the
/// block back that was under way, and continues there, as often as is necessary.
///
/// `Memory` has `load`, and `store`, which keeps its place among all accesses of this thread. One at a time works on a
/// lane: another one only after the one before it has ended, and all of its stores have taken effect.
template <class Memory>
class UpdateLane {
 public:
  /// @param word  of this lane; 0 at first
  UpdateLane(Memory& memory, std::atomic<std::uint64_t>& word) : memory_(memory), word_(word) {}

  /// Takes back what was under way in update `number`, from 1. It stays marked: whoever continues begins with the same
  /// block, whose old values are in the slot already.
  /// @param restore  gives the elements of a mark their old values
  /// @return  so many elements are done, from which `update_with_undo` continues
  template <class Restore>
  std::uint64_t resume(std::uint64_t number, const Restore& restore) {
    const UndoMark seen = UndoMark::of(memory_.load(word_));
    if (!seen.is_of(number)) return 0;
    if (seen.elements > 0) restore(seen);
    return seen.position;
  }
  /// Elements [0, until) of update `number` are done. Behind the last block there may be some that are never updated.
  void finish(std::uint64_t number, std::uint64_t until) { memory_.store(word_, UndoMark{number, until, 0, 0}.word()); }
  bool is_done(std::uint64_t number, std::uint64_t until) const {
    const UndoMark seen = UndoMark::of(memory_.load(word_));
    return until == 0 || (seen.is_of(number) && seen.position >= until);
  }

 private:
  Memory& memory_;
  std::atomic<std::uint64_t>& word_;
};

}  // namespace lockstep
