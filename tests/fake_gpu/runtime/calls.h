#pragma once

// What the files with the functions of the CUDA runtime share. A call that needs a context begins with
//   if (const auto why = begin_call(__func__)) return why;
#include <cuda_runtime_api.h>

#include "tests/fake_gpu/runtime/context.h"

namespace fake_gpu {

inline cudaError_t begin_call(const char* call) {
  if (const cudaError_t why = why_unusable()) return with_error(why);
  need_context(call);
  return cudaSuccess;
}

}  // namespace fake_gpu
