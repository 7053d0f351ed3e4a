#pragma once

#include <array>
#include <cstddef>

#include "lockstep/comm/reduce/reduce.h"

namespace lockstep::shm {

constexpr std::size_t kElements = 7;
constexpr std::size_t kReductions = 5;

using ReduceLoop = void (*)(const std::byte* const* sources, int n_sources, std::byte* const* destinations,
                            int n_destinations, std::size_t count);
/// A loop for each element and reduction, in the order of the enums.
using ReduceTable = std::array<std::array<ReduceLoop, kReductions>, kElements>;

/// The loops, compiled for different vectors. Null if the compiler's target does not have these vectors.
const ReduceTable* reduce_table_baseline();
const ReduceTable* reduce_table_avx2();
const ReduceTable* reduce_table_avx512();

}  // namespace lockstep::shm
