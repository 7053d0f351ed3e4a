// The exact number of bytes of tensors that are allocated and not freed.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <cstdint>
#include <memory>

namespace lockstep {

/// While it lives, counts what LibTorch's CPU allocator allocates for this thread and frees. The numbers are equal each
/// time; malloc's own would be rounded and include memory that was freed and kept.
class AllocatedBytes {
 public:
  AllocatedBytes() : count_(std::make_shared<Count>()), guard_(c10::DebugInfoKind::PROFILER_STATE, count_) {}
  std::int64_t now() const { return count_->bytes; }

 private:
  // The two forms that LibTorch 1.13 and 2.x declare; one overrides, the other is never called.
  struct Count : c10::MemoryReportingInfoBase {
    void reportMemoryUsage(void*, std::int64_t size, std::int64_t, std::int64_t, c10::Device) { bytes += size; }
    void reportMemoryUsage(void*, std::int64_t size, std::size_t, std::size_t, c10::Device) { bytes += size; }
    bool memoryProfilingEnabled() const { return true; }
    std::int64_t bytes = 0;
  };

  std::shared_ptr<Count> count_;
  c10::DebugInfoGuard guard_;
};

}  // namespace lockstep
