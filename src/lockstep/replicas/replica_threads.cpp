#include "lockstep/replicas/replica_threads.h"

#include <ATen/Parallel.h>
#include <ATen/ThreadLocalState.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <exception>
#include <optional>

#include "lockstep/detail/tensor/autocast.h"
#include "lockstep/replicas/replica_error.h"

namespace lockstep {
namespace {

// Sets the number of the calling thread's OpenMP threads while it computes a CPU replica.
class ThreadShare {
 public:
  explicit ThreadShare(int threads) : before_(openmp_threads()), threads_(threads) {
    if (is_set()) set_openmp_threads(threads_);
  }
  ~ThreadShare() {
    if (is_set()) set_openmp_threads(before_);
  }
  ThreadShare(const ThreadShare&) = delete;
  ThreadShare& operator=(const ThreadShare&) = delete;

 private:
  bool is_set() const { return threads_ > 0 && before_ > 0 && before_ != threads_; }
  int before_;
  int threads_;
};

std::vector<std::optional<c10::Stream>> current_streams(const std::vector<ReplicaDevice>& devices) {
  std::vector<std::optional<c10::Stream>> streams(devices.size());
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (devices[i].is_cpu()) continue;
    const c10::impl::VirtualGuardImpl backend(c10::kCUDA);
    streams[i] = backend.getStream(devices[i].tensor_device());
  }
  return streams;
}

// Sets the current device and stream of a CUDA replica.
class DeviceAndStream {
 public:
  explicit DeviceAndStream(const std::optional<c10::Stream>& stream) {
    if (stream) guard_.emplace(*stream);
  }

 private:
  std::optional<c10::StreamGuard> guard_;
};

}  // namespace

void start_replica_thread(const ReplicaDevice& device, const ComputeShare& share) {
  at::get_num_threads();  // LibTorch sets a thread's number of threads at its first use
  if (device.is_cpu() && share.threads > 0) set_openmp_threads(share.threads);
}

void run_on_replicas(WorkerThreads& team, const std::vector<ReplicaDevice>& devices, const ComputeShare& share,
                     StepTrace* trace, std::size_t count, const char* action,
                     const std::function<void(std::size_t)>& work, bool in_turn) {
  std::vector<std::exception_ptr> failures(count);
  const at::ThreadLocalState caller_state;
  const AutocastTypes autocast;
  const auto streams = current_streams(devices);
  const auto run_one = [&](std::size_t replica) {
    try {
      const DeviceAndStream stream(streams[replica]);
      const TraceScope scope(trace, action, trace == nullptr ? std::string() : devices[replica].name());
      work(replica);
    } catch (...) {
      failures[replica] = std::current_exception();
    }
  };
  for (std::size_t replica = 0; in_turn && replica < count; ++replica) run_one(replica);
  if (!in_turn) {
    const SideBySideProducts products;
    const ThreadShare threads(count > 1 && devices.front().is_cpu() ? share.threads : 0);
    team.run(count, [&](std::size_t replica) {
      if (replica == 0) return run_one(replica);
      const at::ThreadLocalStateGuard state(caller_state);
      autocast.set();
      run_one(replica);
    });
  }
  for (std::size_t replica = 0; replica < count; ++replica) {
    if (failures[replica]) rethrow_from_replica(failures[replica], action, replica, devices[replica]);
  }
}

}  // namespace lockstep
