#pragma once

// Included, like kernel_loops.h, by a source file that has switched the compiler to one instruction set.

#include "lockstep/optim/kernels/kernel_loops.h"
#include "lockstep/optim/kernels/kernel_reductions.h"
#include "lockstep/optim/kernels/kernel_table.h"

namespace lockstep {

/// All kernels of one instruction set.
template <template <typename> class Simd>
constexpr KernelTable make_kernel_table() {
  return {run_sgd<Simd, float>,   run_sgd<Simd, double>,      run_adam<Simd, float>,
          run_adam<Simd, double>, block_sum_of_squares<Simd>, largest_magnitude<Simd>,
          scale_source<Simd>,     source_is_finite<Simd>,     round_weights<Simd>};
}

}  // namespace lockstep
