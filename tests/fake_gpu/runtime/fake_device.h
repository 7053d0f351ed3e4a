#pragma once

// What the other libraries of the fake devices use of the runtime: libnccl and the kernels.
#include <cuda_runtime_api.h>

#include <functional>

namespace fake_gpu {

/// Does `work` on a stream, in its order. It finds the bytes of device memory by `host_view`.
void run_on_stream(cudaStream_t stream, std::function<void()> work);
/// Waits for a stream as a kernel's substitute must, without counting it as the program's.
void wait_quietly(cudaStream_t stream);

}  // namespace fake_gpu
