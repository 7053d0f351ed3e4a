#include "lockstep/comm/nccl/nccl_handle.h"

#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <fmt/format.h>

#include <chrono>
#include <thread>
#include <utility>

#include "lockstep/base/log.h"

namespace lockstep {
namespace {

/// Most calls take effect in some microseconds: at first the processor is only yielded.
constexpr int kHandleYields = 100;
constexpr std::chrono::microseconds kHandlePoll{50};
/// How long the other ranks may take to end a communicator together with this one.
constexpr std::chrono::milliseconds kFarewell{2000};

}  // namespace

ncclUniqueId new_nccl_id() {
  ncclUniqueId id;
  const ncclResult_t result = ncclGetUniqueId(&id);
  if (result != ncclSuccess) throw NcclError(fmt::format("ncclGetUniqueId: {}", ncclGetErrorString(result)), result);
  return id;
}

NcclHandle::NcclHandle(int rank, int size, const ncclUniqueId& id) : device_(c10::cuda::current_device()) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const ncclResult_t result = ncclCommInitRankConfig(&communicator_, size, id, rank, &config);
  if (result != ncclSuccess && result != ncclInProgress) {
    ncclComm_t const failed = communicator_;
    communicator_ = nullptr;
    const std::string detail = ncclGetLastError(failed);
    if (failed != nullptr) ncclCommAbort(failed);
    throw NcclError(fmt::format("ncclCommInitRankConfig: {}. {}", ncclGetErrorString(result), detail), result);
  }
}

NcclHandle::~NcclHandle() {
  try {
    std::unique_lock<std::mutex> lock(mutex_);
    if (communicator_ == nullptr) return;
    const c10::cuda::CUDAGuard device(static_cast<c10::DeviceIndex>(device_));
    // Other ranks may still fetch what this rank has sent: NCCL must finish before its memory is freed.
    settle("ncclCommFinalize", ncclCommFinalize(communicator_), lock, Deadline::after(kFarewell));
    ncclCommDestroy(communicator_);
    communicator_ = nullptr;
  } catch (const std::exception& error) {
    log_debug("NCCL did not end in good order: {}", error.what());
    if (ncclComm_t const communicator = give_up()) ncclCommAbort(communicator);
  }
}

void NcclHandle::wait_until_up() {
  std::unique_lock<std::mutex> lock(mutex_);
  settle("ncclCommInitRankConfig", ncclInProgress, lock, Deadline::never());
}

void NcclHandle::call(const char* what, const std::function<ncclResult_t(ncclComm_t)>& body) {
  const std::lock_guard<std::mutex> one_call(calls_);
  std::unique_lock<std::mutex> lock(mutex_);
  settle(what, body(usable()), lock, Deadline::never());
}

void NcclHandle::check() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (communicator_ == nullptr) return;
  ncclResult_t state = ncclSuccess;
  const ncclResult_t result = ncclCommGetAsyncError(communicator_, &state);
  if (result != ncclSuccess) raise("ncclCommGetAsyncError", result);
  if (state != ncclSuccess && state != ncclInProgress) raise("NCCL", state);
}

ncclComm_t NcclHandle::give_up() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(communicator_, nullptr);
}

void NcclHandle::settle(const char* what, ncclResult_t result, std::unique_lock<std::mutex>& lock, Deadline deadline) {
  for (int polls = 0; result == ncclInProgress; ++polls) {
    if (deadline.passed()) throw NcclError(fmt::format("{} did not end in time", what), result);
    lock.unlock();  // so that `abort` can run
    if (polls < kHandleYields) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kHandlePoll);
    }
    lock.lock();
    const ncclResult_t asked = ncclCommGetAsyncError(usable(), &result);
    if (asked != ncclSuccess) result = asked;
  }
  if (result != ncclSuccess) raise(what, result);
}

ncclComm_t NcclHandle::usable() const {
  if (communicator_ == nullptr) throw NcclAborted();
  return communicator_;
}

void NcclHandle::raise(const char* what, ncclResult_t result) const {
  throw NcclError(fmt::format("{}: {}. {}", what, ncclGetErrorString(result), ncclGetLastError(communicator_)), result);
}

}  // namespace lockstep
