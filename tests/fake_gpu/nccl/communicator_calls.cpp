// How communicators begin and end. ncclCommAbort sets the flag that ends the communicator's kernels and then frees its
// memory, for which it waits for the whole device: with two communicators on a device, one that was not aborted yet
// keeps it from returning, unless both calls are in one group. ncclCommFinalize waits for what was launched (NCCL User
// Guide, "Fault Tolerance", "Communicator Finalization").
//   FAKE_NCCL_ABORT_US      an abort takes so long
//   FAKE_NCCL_ABORT_HANGS=1 an abort never returns
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include "tests/fake_gpu/nccl/communicator.h"
#include "tests/fake_gpu/nccl/launch.h"
#include "tests/fake_gpu/runtime/context.h"
#include "tests/fake_gpu/runtime/counters.h"
#include "tests/fake_gpu/runtime/settings.h"

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<unsigned> count{0};
  std::memset(id, 0, sizeof *id);
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  std::snprintf(id->internal, sizeof id->internal, "/fake-nccl-%d-%u-%llx", ::getpid(), count++,
                static_cast<unsigned long long>(now));
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
      return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  *communicator = nullptr;
  if (rank < 0 || rank >= size || size > fake_gpu::kMostRanks) return ncclInvalidArgument;
  auto* const made = new ncclComm;
  made->rank = rank;
  made->size = size;
  made->device = fake_gpu::current_device();
  // NCCL_CONFIG_UNDEF_INT stands for the default, which is to block.
  made->blocking = config == nullptr || config->blocking != 0;
  if (!made->shared.open(id.internal, size)) {
    fake_gpu::set_last_error("shared memory of the ranks could not be made");
    return ncclSystemError;
  }
  if (cudaMalloc(&made->buffer, 1 << 20) != cudaSuccess) {
    fake_gpu::set_last_error("Cuda failure 2 'out of memory'");
    return ncclUnhandledCudaError;
  }
  ++fake_gpu::counters().communicators;
  *communicator = made;
  return fake_gpu::submit_join(made);
}

ncclResult_t ncclCommInitRank(ncclComm_t* communicator, int size, ncclUniqueId id, int rank) {
  return ncclCommInitRankConfig(communicator, size, id, rank, nullptr);
}

ncclResult_t ncclCommInitAll(ncclComm_t* communicators, int count, const int* devices) {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  const int before = fake_gpu::current_device();
  ncclGroupStart();
  for (int rank = 0; rank < count; ++rank) {
    cudaSetDevice(devices == nullptr ? rank : devices[rank]);
    ncclCommInitRank(&communicators[rank], count, id, rank);
  }
  const ncclResult_t result = ncclGroupEnd();
  cudaSetDevice(before);
  return result;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* result) {
  if (communicator->destroyed) return ncclInvalidArgument;
  *result = static_cast<ncclResult_t>(communicator->state.load());
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t communicator) {
  if (const ncclResult_t why = fake_gpu::why_not_ready(communicator)) return why;
  communicator->state = ncclInProgress;
  const auto drain = [communicator] {
    communicator->until([&] { return communicator->running == 0; });
    int in_progress = ncclInProgress;
    communicator->state.compare_exchange_strong(in_progress, ncclSuccess);
  };
  if (communicator->blocking) {
    drain();
    return ncclSuccess;
  }
  std::thread(drain).detach();
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  if (communicator->destroyed) return ncclInvalidArgument;
  fake_gpu::reclaim(communicator);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  if (communicator->destroyed || communicator->aborted.exchange(true)) return ncclInvalidArgument;
  std::this_thread::sleep_for(std::chrono::microseconds(fake_gpu::number_of("FAKE_NCCL_ABORT_US", 0)));
  while (fake_gpu::number_of("FAKE_NCCL_ABORT_HANGS", 0) != 0) ::pause();
  fake_gpu::submit_abort(communicator);
  return ncclSuccess;
}

// Memory that NCCL may use without copies: there is nothing to do for it here.
ncclResult_t ncclCommRegister(const ncclComm_t, void* buffer, std::size_t, void** handle) {
  *handle = buffer;
  return ncclSuccess;
}
ncclResult_t ncclCommDeregister(const ncclComm_t, void*) { return ncclSuccess; }

ncclResult_t ncclCommCount(const ncclComm_t communicator, int* count) {
  *count = communicator->size;
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t communicator, int* rank) {
  *rank = communicator->rank;
  return ncclSuccess;
}

}  // extern "C"
