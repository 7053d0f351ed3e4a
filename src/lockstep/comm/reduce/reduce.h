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
/// A destination may be exactly a source; otherwise nothing overlaps. Uses `widest_instruction_set()`; the results of
/// all are equal.
void reduce(Element element, Reduction reduction, const std::byte* const* sources, int n_sources,
            std::byte* const* destinations, int n_destinations, std::size_t count);

}  // namespace lockstep::shm
