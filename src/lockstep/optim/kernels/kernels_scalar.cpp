#include "lockstep/optim/kernels/kernel_table.h"
#include "lockstep/optim/kernels/make_kernel_table.h"
#include "lockstep/optim/kernels/simd_scalar.h"

namespace lockstep {

const KernelTable kScalarKernels = make_kernel_table<ScalarSimd>();

}  // namespace lockstep
