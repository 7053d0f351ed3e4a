#include "lockstep/comm/nccl/nccl_connections.h"

#include <chrono>
#include <thread>
#include <utility>

namespace lockstep {
namespace {

/// Most waits are short, so at first the processor is only yielded.
constexpr int kNcclYields = 200;
constexpr std::chrono::microseconds kNcclPause{20};
constexpr int kPausesPerCheck = 500;

}  // namespace

void NcclConnections::add(std::shared_ptr<NcclHandle> handle) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (broken_) throw NcclAborted();
  handles_.push_back(std::move(handle));
}

void NcclConnections::break_connections() noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  broken_ = true;
  for (const auto& handle : handles_) handle->abort();
}

void NcclConnections::wait(const c10::Event& event, NcclHandle& handle) const {
  for (int polls = 0; !event.query(); ++polls) {
    if (broken_) throw NcclAborted();
    if (polls < kNcclYields) {
      std::this_thread::yield();
      continue;
    }
    if (polls % kPausesPerCheck == 0) handle.check();
    std::this_thread::sleep_for(kNcclPause);
  }
  if (broken_) throw NcclAborted();  // the device reached the event because of the abort
}

}  // namespace lockstep
