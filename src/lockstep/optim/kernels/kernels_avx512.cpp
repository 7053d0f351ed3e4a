// Everything below the switch is compiled for AVX-512. Only processors with these instructions may run it, so it is
// called through the table below. Other headers are included first, so that none of their functions is compiled this
// way.
#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "lockstep/optim/kernels/kernel_table.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma,f16c"))), \
                             apply_to = function)
#else
// The compiler's own header for these instructions deliberately reads values that it never set.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,fma,f16c")
#endif
#include "lockstep/optim/kernels/make_kernel_table.h"
#include "lockstep/optim/kernels/simd_avx512.h"

namespace lockstep {

const KernelTable kAvx512Kernels = make_kernel_table<Avx512Simd>();

}  // namespace lockstep

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
