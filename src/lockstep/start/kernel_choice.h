#pragma once

#include <string>

namespace lockstep {

/// The widest vectors with which this processor multiplies matrices: "AVX-512", "AVX2", or "" for older ones and other
/// kinds of processor. Read from the processor itself (CPUID), which does not become outdated as a library's list of
/// models does.
std::string widest_vectors();

/// The value of OPENBLAS_CORETYPE for this processor; empty leaves the choice to OpenBLAS.
///
/// OpenBLAS picks its kernels by the model number of the processor. For an Intel model newer than the library it takes
/// the kernels of the oldest 64-bit processor. Measured with OpenBLAS 0.3.21 on such a processor, one core, sgemm of
/// 1024: 10 to 14 GFLOP/s with its own choice ("Prescott"), 22 to 30 with "Haswell", 48 to 57 with "SkylakeX". It
/// recognises AMD's processors by family, and unknown families by their features.
std::string blas_core_type();

/// The kernels that OpenBLAS uses in this process, by OpenBLAS's name ("SkylakeX"); empty without OpenBLAS.
std::string blas_kernels();

/// How many times longer products take with OpenBLAS's `kernels` than with the best that fit this processor, at worst:
/// 4 on a processor with AVX-512, 2 on one with AVX2, if the kernels use neither; else 1. Pure, for tests.
int slowdown_of(const std::string& kernels, const std::string& vectors);

/// Does once per process what is left to do about kernels after the start:
///   - Warns if OpenBLAS uses kernels that are far slower than the processor allows. That happens if the program was
///     started in a way that Lockstep cannot influence, for example if the library was loaded late. The warning gives
///     the factor and the line to write. If the user set OPENBLAS_CORETYPE, there is no warning.
///   - Calls `report_withheld_amx`, unless this process is another rank than 0. Late is early enough for the variables
///     that keep oneDNN from AMX, because oneDNN reads them when it is first used, so they are set here if they could
///     not be set at the start.
void check_kernels();

/// Warns if this process is the first of its job that keeps oneDNN from AMX: its products in bf16 are slower than the
/// processor could make them if it described its tiles. `check_kernels` calls it for a program that was started by
/// hand; a launcher calls it before it starts ranks, which then do not repeat it.
void report_withheld_amx();

}  // namespace lockstep
