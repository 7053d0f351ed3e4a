#pragma once

// Included by kernel_loops.h; see its first comment.

#include <algorithm>
#include <cstddef>

namespace lockstep {

/// Updates elements [begin, end) block by block, so that the block that is under way when the process is killed can be
/// taken back. A slot is written only while the word names the other one, or no block. One exception: a process that
/// takes a block back and continues with it may write the block's old values to their slot once more.
///
/// `Log` has `block(begin)`, how many elements a block that begins there has at most; `save(begin, elements, slot)`,
/// which copies old values to a slot; and `mark(begin, elements, slot)`, which sets the word and keeps its place among
/// all stores of this thread. `update(begin, end)` writes the new values.
template <typename Log, typename Update>
[[gnu::always_inline]] inline void update_with_undo(const Log& log, std::size_t begin, std::size_t end,
                                                    const Update& update) {
  std::size_t slot = 0;
  for (std::size_t at = begin; at < end; slot = 1 - slot) {
    const std::size_t elements = std::min(log.block(at), end - at);
    log.save(at, elements, slot);
    log.mark(at, elements, slot);
    update(at, at + elements);
    at += elements;
  }
  log.mark(end, 0, 0);
}

}  // namespace lockstep
