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

void NcclConnections::add(std::shared_ptr<NcclHandle> handle, std::shared_ptr<NcclStream> stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (breaking_) throw NcclAborted();
  workplaces_.push_back({std::move(handle), std::move(stream)});
}

void NcclConnections::break_connections() noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);  // a second caller waits until the first one is done
  if (breaking_.exchange(true)) return;
  end_nccl(workplaces_, abort_limit_);
}

void NcclConnections::wait(const c10::Event& event, NcclHandle& handle) const {
  for (int polls = 0; !event.query(); ++polls) {
    if (breaking_) throw NcclAborted();
    if (polls < kNcclYields) {
      std::this_thread::yield();
      continue;
    }
    if (polls % kPausesPerCheck == 0) handle.check();
    std::this_thread::sleep_for(kNcclPause);
  }
  if (breaking_) throw NcclAborted();  // the device reached the event because of the abort
}

}  // namespace lockstep
