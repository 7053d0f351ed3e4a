#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace lockstep {

/// The numbers 0 to `n` - 1 in random order, [n] int64: the result of `torch.randperm(n, generator=g)` after
/// `g.manual_seed(seed)`, element by element.
at::Tensor random_permutation(std::int64_t n, std::uint64_t seed);

}  // namespace lockstep
