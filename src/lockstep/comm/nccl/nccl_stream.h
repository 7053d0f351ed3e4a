#pragma once

#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

namespace lockstep {

/// A stream that nothing else uses. LibTorch's pool has 32 for each device and then gives them out again, so that
/// operations of two communicators could wait for each other.
class NcclStream {
 public:
  /// On the current device. @throws c10::Error
  NcclStream();
  ~NcclStream();
  NcclStream(const NcclStream&) = delete;
  NcclStream& operator=(const NcclStream&) = delete;

  const c10::cuda::CUDAStream& get() const { return stream_; }
  /// Whether all work on it has ended, or the device has failed, so that nothing more will.
  bool is_quiet() const noexcept;

 private:
  c10::cuda::CUDAStream stream_;
};

}  // namespace lockstep
