#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "lockstep/comm/symmetric_memory.h"
#include "lockstep/comm/transient_memory.h"

namespace lockstep {

/// Remembers which memory of this rank the ranks of its host agreed to treat in a special way, while somebody holds its
/// SymmetricMemory. Thread-safe.
class HostMemories {
 public:
  /// @param layout  where a collective puts what ranks send
  void add(const at::Tensor& memory, const std::shared_ptr<SymmetricMemory>& parts, GatherLayout layout = {});
  struct Found {
    std::shared_ptr<SymmetricMemory> parts;  ///< null for other memory
    std::shared_ptr<const GatherLayout> layout;
    explicit operator bool() const { return parts != nullptr; }
  };
  /// What `add` was given for exactly this memory.
  Found find(const at::Tensor& tensor) const;

 private:
  struct Entry {
    const void* begin;
    std::size_t bytes;
    std::weak_ptr<SymmetricMemory> parts;
    std::shared_ptr<const GatherLayout> layout;
  };
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
};

}  // namespace lockstep
