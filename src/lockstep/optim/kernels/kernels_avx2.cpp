// Everything that follows the switch is compiled for AVX2, FMA and F16C. What only processors of that kind may run is
// called through the table below; headers of others come first, so that none of their functions gets into such code.
#if defined(__x86_64__)
#include <immintrin.h>

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
#include "lockstep/optim/kernels/kernel_reductions.h"
#include "lockstep/optim/kernels/simd_avx2.h"

namespace lockstep {

const KernelTable kAvx2Kernels = make_kernel_table<Avx2Simd>();

}  // namespace lockstep

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
