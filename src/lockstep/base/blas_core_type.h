#pragma once

#include <string>

namespace lockstep {

/// What OPENBLAS_CORETYPE should say on this processor; empty to leave the choice to OpenBLAS.
///
/// OpenBLAS picks its kernels by the model number of the processor, and takes those of the oldest 64-bit processor for
/// a model that is younger than the library. Measured with OpenBLAS 0.3.21 on such an Intel processor, one core, sgemm
/// of 1024: 10 to 14 GFLOP/s as it chooses ("Prescott"), 22 to 30 with "Haswell", 48 to 57 with "SkylakeX". What the
/// processor says that it can do does not age, so on Intel's that decides. AMD's are recognised by family.
std::string blas_core_type();

}  // namespace lockstep
