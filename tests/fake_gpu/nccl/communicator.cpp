#include "tests/fake_gpu/nccl/communicator.h"

#include <chrono>
#include <thread>

#include "tests/fake_gpu/runtime/context.h"
#include "tests/fake_gpu/runtime/counters.h"
#include "tests/fake_gpu/runtime/settings.h"
#include "tests/fake_gpu/runtime/stream.h"

namespace {

void pause(int times) {
  if (times < 50) return std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::microseconds(times < 500 ? 20 : 200));
}

}  // namespace

bool ncclComm::until(const std::function<bool()>& done) const {
  for (int times = 0; !done(); ++times) {
    if (aborted || fake_gpu::streams_are_stopping()) return false;
    pause(times);
  }
  return true;
}

bool ncclComm::meet() {
  const std::uint64_t all = ++meetings * static_cast<std::uint64_t>(size);
  ++shared.header().arrived;
  return until([&] { return shared.header().arrived.load() >= all; });
}

namespace fake_gpu {
namespace {

std::mutex error_mutex;
const char* last_error_text = "";

}  // namespace

void set_last_error(const std::string& text) {
  const std::lock_guard<std::mutex> lock(error_mutex);
  last_error_text = (new std::string(text))->c_str();  // somebody may read the one before
}

ncclResult_t why_not_ready(const ncclComm* communicator) {
  if (communicator == nullptr) return ncclInvalidArgument;
  if (communicator->destroyed || communicator->aborted) {
    set_last_error("this communicator was already destroyed or aborted");
    return ncclInvalidArgument;
  }
  const int state = communicator->state;
  if (state != ncclInProgress) return static_cast<ncclResult_t>(state);
  set_last_error("communicator was used before the previous operation returned ncclSuccess");
  return ncclInvalidArgument;
}

void fail(ncclComm* communicator, ncclResult_t result, const std::string& text) {
  set_last_error(text);
  communicator->state = result;
}

// "Duplicate GPU detected": NCCL refuses two ranks on one device.
ncclResult_t join(ncclComm* communicator) {
  SharedGroup::Header& header = communicator->shared.header();
  header.device[communicator->rank] = physical_device(communicator->device) + 1;
  ++header.joined;
  const bool all = communicator->until([&] { return header.joined.load() >= communicator->size; });
  if (communicator->rank == 0) communicator->shared.remove_name();
  if (!all) return ncclInternalError;
  for (int first = 0; first < communicator->size; ++first) {
    for (int second = first + 1; second < communicator->size; ++second) {
      if (header.device[first] != header.device[second]) continue;
      set_last_error("Duplicate GPU detected : rank " + std::to_string(first) + " and rank " + std::to_string(second) +
                     " both on CUDA device " + std::to_string(header.device[first] - 1));
      return ncclInvalidUsage;
    }
  }
  return ncclSuccess;
}

void reclaim(ncclComm* communicator) {
  while (communicator->running > 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
  const int before = current_device();
  cudaSetDevice(communicator->device);
  cudaFree(communicator->buffer);  // waits for the whole device, as NCCL's own
  cudaSetDevice(before);
  communicator->buffer = nullptr;
  communicator->destroyed = true;
  ++counters().nccl_ends;
}

}  // namespace fake_gpu

extern "C" const char* ncclGetLastError(ncclComm_t) {
  const std::lock_guard<std::mutex> lock(fake_gpu::error_mutex);
  return fake_gpu::last_error_text;
}
