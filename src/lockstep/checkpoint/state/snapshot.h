#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/detail/checkpoint/checkpoint_content.h"

namespace lockstep {

/// Memory for a copy of a checkpoint's content, kept from one save to the next.
class SnapshotMemory {
 public:
  /// A copy of `content` whose tensors are in this memory, on the CPU; valid until the next call. Allocates nothing
  /// unless the content is larger than before.
  CheckpointContent copy(const CheckpointContent& content);
  std::uint64_t size_bytes() const { return memory_.defined() ? memory_.nbytes() : 0; }

 private:
  struct Piece {
    char* to;
    const char* from;
    std::size_t bytes;
  };

  at::Tensor place(const at::Tensor& tensor, std::vector<Piece>& pieces);

  at::Tensor memory_;
  std::int64_t used_bytes_ = 0;
};

}  // namespace lockstep
