// Everything below the switch is compiled for AVX2, FMA and F16C. Only processors with these instructions may run it,
// so it is called through the table below. Other headers are included first, so that none of their functions is
// compiled this way.
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
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC target("avx2,fma,f16c")
#endif
#include "lockstep/optim/kernels/make_kernel_table.h"
#include "lockstep/optim/kernels/simd_avx2.h"

namespace lockstep {

const KernelTable kAvx2Kernels = make_kernel_table<Avx2Simd>();

}  // namespace lockstep

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
