#pragma once

#include <string>

namespace lockstep {

/// The widest vectors that this processor multiplies matrices with: "AVX-512", "AVX2", or "" for older ones and other
/// kinds of processor. What the processor says of itself (CPUID) does not age, unlike a library's list of models.
std::string widest_vectors();

/// What OPENBLAS_CORETYPE should say on this processor; empty to leave the choice to OpenBLAS.
///
/// OpenBLAS picks its kernels by the model number of the processor, and takes those of the oldest 64-bit processor for
/// an Intel model that is younger than the library. Measured with OpenBLAS 0.3.21 on such a processor, one core, sgemm
/// of 1024: 10 to 14 GFLOP/s as it chooses ("Prescott"), 22 to 30 with "Haswell", 48 to 57 with "SkylakeX". AMD's are
/// recognised by family, and unknown families by what they can do.
std::string blas_core_type();

/// The kernels that OpenBLAS uses in this process, by its own name for them ("SkylakeX"); empty without OpenBLAS.
std::string blas_kernels();

/// How many times as long products take with OpenBLAS's `kernels` as with the best that fit this processor, at worst: 4
/// on a processor with AVX-512, 2 on one with AVX2, where the kernels know neither; else 1. Pure, for tests.
int slowdown_of(const std::string& kernels, const std::string& vectors);

/// Warns, once in a process, if OpenBLAS uses kernels that are far slower than the processor: the program was started
/// in a way that Lockstep cannot help, such as a library that is loaded late. Says the factor, and the line to write.
/// A choice of the user's (OPENBLAS_CORETYPE) is not warned about.
void warn_of_slow_kernels();

}  // namespace lockstep
