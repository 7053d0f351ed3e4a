// Bytes of tensors that are made and not freed, exactly.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <cstdint>
#include <memory>

namespace lockstep {

/// While it lives, counts what LibTorch's CPU allocator gives to this thread and takes back from it: the same numbers
/// each time, where malloc's own would be rounded and hold what is freed and kept.
class HeldBytes {
 public:
  HeldBytes() : count_(std::make_shared<Count>()), guard_(c10::DebugInfoKind::PROFILER_STATE, count_) {}
  std::int64_t now() const { return count_->bytes; }

 private:
  // The two forms that LibTorch 1.13 and 2.x ask for; one overrides, the other is never called.
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
