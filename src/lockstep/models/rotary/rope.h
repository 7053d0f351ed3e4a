#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "lockstep/detail/models/rotary_config.h"

namespace lockstep {

/// The angles by which positions turn pairs of numbers of each head.
struct RotaryAngles {
  at::Tensor cosines, sines;  ///< [size or 1, length, 1, head size / 2], fp32; undefined: nothing is turned
};

/// By how much each position turns the pairs of a head, [head size / 2] in fp32, as Hugging Face computes them: in
/// fp32, because the angles of far positions depend on its rounding.
at::Tensor rope_frequencies(const RopeSettings& rope, std::int64_t head_size, std::int64_t max_positions);

/// The factor of all cosines and sines, which is not 1 in Yarn.
double rope_attention_factor(const RopeSettings& rope, std::int64_t max_positions);

/// @param positions  [size or 1, length], int64
RotaryAngles rotation_of(const RotarySettings& settings, const at::Tensor& positions);

/// Turns x[i] and x[i + half] of each head. Computes in fp32 at least, and returns the type of x.
/// @param x  [size, length, heads, head size]
at::Tensor rotate(const at::Tensor& x, const RotaryAngles& rotation);

}  // namespace lockstep
