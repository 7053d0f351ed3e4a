#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "lockstep/comm/shm/group.h"
#include "lockstep/comm/shm/memory/allocations.h"

namespace lockstep::shm {

/// Pages that all ranks use in turns, and that are given back to the kernel in between.
class TransientPages {
 public:
  /// How many bytes each of `ranks` must allocate, with pages that come when they are written, for `bytes` in all.
  static std::size_t bytes_of_part(std::size_t bytes, int ranks);

  TransientPages(Group& group, std::shared_ptr<SymmetricBuffer> buffer, std::size_t bytes)
      : group_(group), buffer_(std::move(buffer)), bytes_(whole_pages(bytes)) {}
  std::byte* data() const { return buffer_->part(0); }
  /// This rank uses the pages no more, until it has passed the barrier before the next turn.
  void leave() noexcept;

 private:
  Word& left() const;

  Group& group_;
  std::shared_ptr<SymmetricBuffer> buffer_;  // the pages, and behind all others one that counts
  std::size_t bytes_;
};

}  // namespace lockstep::shm
