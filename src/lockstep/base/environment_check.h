#pragma once

namespace lockstep {

/// Checks the variables that are read late, or by libraries that ignore a value they cannot read: OMP_NUM_THREADS,
/// OPENBLAS_NUM_THREADS, MKL_NUM_THREADS, LOCKSTEP_TIMEOUT_S, LOCKSTEP_JOIN_TIMEOUT_S and LOCKSTEP_ISA. A misspelt
/// value is then reported at the start, with one process as with many.
/// @throws Error  that names the variable and its text
void require_readable_environment();

}  // namespace lockstep
