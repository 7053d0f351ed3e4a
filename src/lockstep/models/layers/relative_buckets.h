#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace lockstep {

/// Distances that a relative attention bias distinguishes: 16 forwards and 16 backwards.
constexpr std::int64_t kRelativeBuckets = 32;

/// The bucket of the distance from token i to token j: one each up to 7 tokens, wider ones up to 128, and one for all
/// beyond (Raffel et al., 2020, arXiv:1910.10683, section 2.1).
/// @return  [length, length] int64
at::Tensor relative_buckets(std::int64_t length, at::Device device);

}  // namespace lockstep
