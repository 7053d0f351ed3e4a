// Contexts. cudaSetDevice makes the device's primary context at once since CUDA 12; before, and for other calls, the
// first call that needs one makes it on the current device (CUDA Runtime API, "Initialization"). On a GPU a context
// takes half a gigabyte, so a rank should have one on its own device alone. CUDA cannot be used in a process that was
// forked after its parent had used it: such calls return cudaErrorInitializationError. An error inside a kernel stays:
// "the process must be terminated and relaunched" (cudaErrorAssert, cudaErrorIllegalAddress).
#include "tests/fake_gpu/runtime/context.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <mutex>

#include "tests/fake_gpu/runtime/kernel_library.h"
#include "tests/fake_gpu/runtime/settings.h"

namespace fake_gpu {
namespace {

thread_local int this_device = 0;
thread_local cudaError_t this_error = cudaSuccess;

std::mutex context_mutex;
std::atomic<unsigned> contexts{0};
std::atomic<pid_t> owner{0};
std::atomic<int> broken{cudaSuccess};

}  // namespace

int current_device() { return this_device; }

void set_current_device(int device) { this_device = device; }

void need_context(const char* call) {
  const unsigned bit = 1U << static_cast<unsigned>(this_device);
  if ((contexts.load() & bit) != 0) return;
  {
    const std::lock_guard<std::mutex> lock(context_mutex);
    if ((contexts.load() & bit) != 0) return;
    owner = ::getpid();
    contexts |= bit;
  }
  if (settings().log > 0) {
    char thread[32] = "";
    ::pthread_getname_np(::pthread_self(), thread, sizeof thread);
    std::fprintf(stderr, "[fake GPU] process %d: context on device %d, made by %s in thread \"%s\"\n", ::getpid(),
                 this_device, call, thread);
  }
  load_kernels();
}

unsigned context_mask() { return contexts.load(); }

cudaError_t with_error(cudaError_t error) {
  if (error != cudaSuccess) this_error = error;
  return error;
}

cudaError_t last_error(bool forget) {
  const cudaError_t error = broken != cudaSuccess ? sticky_error() : this_error;
  if (forget) this_error = cudaSuccess;
  return error;
}

void break_device(cudaError_t error) {
  int none = cudaSuccess;
  broken.compare_exchange_strong(none, error);
}

cudaError_t sticky_error() { return static_cast<cudaError_t>(broken.load()); }

cudaError_t why_unusable() {
  const pid_t first = owner.load();
  if (first != 0 && first != ::getpid()) return cudaErrorInitializationError;
  return sticky_error();
}

}  // namespace fake_gpu

extern "C" __attribute__((visibility("default"))) unsigned fake_gpu_context_mask() { return fake_gpu::context_mask(); }
