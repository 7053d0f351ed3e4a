#pragma once

#include <cuda_runtime_api.h>

namespace fake_gpu {

/// The device of the calling thread; each thread begins with device 0.
int current_device();
void set_current_device(int device);

/// Makes the current device's primary context if this process has none, as any call does that needs one. `call` is the
/// name of the call, for the log.
void need_context(const char* call);

/// The devices of which this process has a context, one bit for each.
unsigned context_mask();

/// Remembers an error for cudaGetLastError of this thread, and returns it.
cudaError_t with_error(cudaError_t error);
cudaError_t last_error(bool forget);

/// An error of a kernel: every later call of this process that reaches the device returns it.
void break_device(cudaError_t error);
cudaError_t sticky_error();

/// What a call that touches the device returns before it does anything: a sticky error, or that of a forked process.
cudaError_t why_unusable();

}  // namespace fake_gpu
