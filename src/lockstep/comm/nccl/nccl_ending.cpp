#include "lockstep/comm/nccl/nccl_ending.h"

#include <c10/cuda/CUDAGuard.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/failure_record.h"
#include "lockstep/base/log.h"
#include "lockstep/base/start_thread.h"

namespace lockstep {
namespace {

constexpr std::chrono::microseconds kQuietPoll{100};
constexpr const char* kAbortVariable = "LOCKSTEP_NCCL_ABORT_S";
constexpr std::int64_t kAbortSeconds = 60;
constexpr std::int64_t kMostAbortSeconds = 1'000'000;

// The work of the thread that ends communicators. It may outlive the wait for it.
class Ending {
 public:
  explicit Ending(const std::vector<NcclWorkplace>& workplaces) : workplaces_(workplaces) {}

  void run() noexcept {
    try {
      const c10::cuda::CUDAGuard device(workplaces_.front().stream->get().device_index());
      abort_all();
    } catch (const c10::Error& error) {  // of the device, which then writes nothing more either
      log_warning("NCCL could not be aborted: {}", error.what_without_backtrace());
    }
    for (const NcclWorkplace& place : workplaces_) {
      while (!place.stream->is_quiet()) std::this_thread::sleep_for(kQuietPoll);
    }
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      has_ended_ = true;
    }
    ended_.notify_all();
  }

  bool wait_for(std::chrono::seconds limit) {
    std::unique_lock<std::mutex> lock(mutex_);
    return ended_.wait_for(lock, limit, [this] { return has_ended_; });
  }

 private:
  // In a group NCCL sets every communicator's flag at its abort, and frees memory at the end of the group.
  void abort_all() const {
    ncclGroupStart();
    for (const NcclWorkplace& place : workplaces_) {
      if (ncclComm_t const communicator = place.handle->give_up()) ncclCommAbort(communicator);
    }
    ncclGroupEnd();
  }

  const std::vector<NcclWorkplace> workplaces_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool has_ended_ = false;
};

[[noreturn]] void leave_lost_device(int device, std::chrono::seconds limit) {
  const Error error(
      fmt::format("CUDA device {} did not become free within {} s after a group over nccl had ended: a kernel on it "
                  "does not stop, or NCCL does not return from its abort. This process cannot use the device any more, "
                  "and ends",
                  device, limit.count()),
      fmt::format("engine nccl, device {}", device),
      "read the first error of the other ranks, which says why the group ended; if only the end was slow, set "
      "LOCKSTEP_NCCL_ABORT_S to more seconds");
  log_warning("{}", error.what());
  record_failure(error);
  ::_exit(EXIT_FAILURE);  // a destructor that frees memory of the device would hang
}

}  // namespace

void end_nccl(const std::vector<NcclWorkplace>& workplaces, std::chrono::seconds limit) noexcept {
  if (workplaces.empty()) return;
  try {
    const auto ending = std::make_shared<Ending>(workplaces);
    std::thread thread = start_thread("ends communicators of NCCL", [ending] { ending->run(); });
    if (!ending->wait_for(limit)) leave_lost_device(workplaces.front().stream->get().device_index(), limit);
    thread.join();
  } catch (const std::exception& error) {
    log_warning("NCCL could not be aborted: {}", error.what());
  }
}

std::chrono::seconds nccl_abort_limit() {
  const std::int64_t seconds = env_int(kAbortVariable).value_or(kAbortSeconds);
  if (seconds > 0 && seconds <= kMostAbortSeconds) return std::chrono::seconds(seconds);
  throw Error(fmt::format("{}={}", kAbortVariable, seconds), "environment",
              "give a positive number of seconds, or leave it out");
}

}  // namespace lockstep
