#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::shm {

enum class Element : std::uint8_t { F32, F64, F16, BF16, I32, I64, U8 };
enum class Reduction : std::uint8_t { Sum, Avg, Min, Max, Product };

std::size_t element_bytes(Element element);

/// Element by element: combines the sources from the first to the last, and writes the result to every destination. The
/// order is fixed, so the bits do not depend on which rank computes. fp16 and bf16 are combined in fp32 and rounded
/// once. Integers wrap. A NaN in any source makes Min and Max NaN. Avg divides the sum by `n_sources`.
///
/// A destination may be exactly a source; otherwise nothing overlaps. Uses the widest vectors that this processor has
/// (AVX-512, AVX2, else the compiler's baseline), with equal results; LOCKSTEP_ISA (avx512, avx2, baseline) selects
/// narrower ones.
void reduce(Element element, Reduction reduction, const std::byte* const* sources, int n_sources,
            std::byte* const* destinations, int n_destinations, std::size_t count);

/// @throws Error  if LOCKSTEP_ISA has another value, so that this is reported at the start, not at the first reduction
void require_known_isa();

/// Which vectors `reduce` uses: "avx512", "avx2" or "baseline".
const char* reduce_isa();

}  // namespace lockstep::shm
