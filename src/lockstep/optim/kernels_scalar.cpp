#include "lockstep/optim/kernel_reductions.h"
#include "lockstep/optim/kernel_table.h"
#include "lockstep/optim/simd_scalar.h"

namespace lockstep {

const KernelTable kScalarKernels = make_kernel_table<ScalarSimd>();

}  // namespace lockstep
