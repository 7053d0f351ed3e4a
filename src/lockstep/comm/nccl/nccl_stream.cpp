#include "lockstep/comm/nccl/nccl_stream.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

namespace lockstep {
namespace {

// A collective holds up the computation that waits for it, so its kernels go first.
c10::cuda::CUDAStream own_stream() {
  int least = 0;
  int greatest = 0;
  C10_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  cudaStream_t stream = nullptr;
  C10_CUDA_CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest));
  return c10::cuda::getStreamFromExternal(stream, static_cast<c10::DeviceIndex>(c10::cuda::current_device()));
}

}  // namespace

NcclStream::NcclStream() : stream_(own_stream()) {}

NcclStream::~NcclStream() {
  const c10::cuda::CUDAGuard device(stream_.device_index());
  cudaStreamDestroy(stream_.stream());  // what is still queued ends first, without a wait here
}

bool NcclStream::is_quiet() const noexcept {
  try {
    return stream_.query();
  } catch (const c10::Error&) {
    return true;
  }
}

}  // namespace lockstep
