#pragma once

#include <cstdint>
#include <vector>

namespace lockstep {

/// The vector instructions that kernels are compiled for, narrowest first.
enum class InstructionSet : std::uint8_t {
  Baseline,  ///< of every processor of its kind
  Avx2,      ///< AVX2, FMA and F16C
  Avx512     ///< those of Avx2, and AVX-512 F, BW, DQ and VL
};

/// What this processor and its operating system have. May be called before constructors have run.
InstructionSet processor_instruction_set();

/// The widest instructions that Lockstep's kernels use: the processor's, or narrower ones that LOCKSTEP_ISA (avx512,
/// avx2, baseline) names. The variable is read once.
/// @throws Error  as require_known_instruction_set
InstructionSet widest_instruction_set();

/// All up to `widest_instruction_set()`, ascending.
std::vector<InstructionSet> available_instruction_sets();

/// @throws Error  if LOCKSTEP_ISA has another value, so that this is reported at the start, not by the first kernel
void require_known_instruction_set();

}  // namespace lockstep
