#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep {

/// Numbers in 8 bits: blocks of 256, each with a factor of its own, the largest magnitude in the block over 127. The
/// error of a number is at most half of its block's factor.
constexpr std::size_t kInt8Block = 256;

/// Bytes that `count` numbers take: their factors (fp32) first, then a byte each.
std::size_t int8_bytes(std::size_t count);

/// Writes `numbers` + `error` [count] as blocks to `bytes` [int8_bytes(count)], and what that lost to `error`.
/// NaN and infinities make their whole block NaN, for a diverged training must not be hidden, and leave its `error`
/// alone: the next numbers are sent as if these had not been.
void to_int8(const float* numbers, float* error, std::size_t count, std::uint8_t* bytes);

/// Whether every block of `bytes` [int8_bytes(count)] holds numbers: none of them was NaN or infinite.
bool int8_is_finite(const std::uint8_t* bytes, std::size_t count);

/// `sum` [count] becomes `factor` times the sum of the numbers in `parts`, each [int8_bytes(count)], added in their
/// order.
void sum_int8(const std::vector<const std::uint8_t*>& parts, std::size_t count, float factor, float* sum);

}  // namespace lockstep
