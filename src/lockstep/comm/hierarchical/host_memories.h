#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "lockstep/comm/symmetric_memory.h"

namespace lockstep {

/// Remembers which memory of this rank the ranks of its host agreed to treat in a special way, while somebody holds its
/// SymmetricMemory. Thread-safe.
class HostMemories {
 public:
  void add(const at::Tensor& memory, const std::shared_ptr<SymmetricMemory>& parts);
  /// What `add` was given for exactly this memory; null for other memory.
  std::shared_ptr<SymmetricMemory> find(const at::Tensor& tensor) const;

 private:
  struct Entry {
    const void* begin;
    std::size_t bytes;
    std::weak_ptr<SymmetricMemory> parts;
  };
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
};

}  // namespace lockstep
