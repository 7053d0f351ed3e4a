#pragma once

#include <cuda_runtime_api.h>

namespace fake_gpu {

/// True while a program records this stream's work into a graph. Work is done at once here, and the graph is empty:
/// enough to see what a program does that a capture forbids.
bool is_captured(cudaStream_t stream);
bool anything_is_captured();

}  // namespace fake_gpu
