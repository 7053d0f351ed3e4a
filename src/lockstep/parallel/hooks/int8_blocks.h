#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep {

/// Numbers in 8 bits: blocks of 256, each with its own factor, which is the largest magnitude in the block divided by
/// 127. The error of a number is at most half of its block's factor.
constexpr std::size_t kInt8Block = 256;

/// Size of `count` numbers in bytes: first their factors (fp32), then one byte each.
std::size_t int8_bytes(std::size_t count);

/// Writes `numbers` + `error` [count] as blocks to `bytes` [int8_bytes(count)], and the loss of precision to `error`. A
/// NaN or infinity makes its whole block NaN, because a diverged training must not be hidden. It leaves the block's
/// `error` unchanged, so that the next numbers are sent as if this call had not been made.
void to_int8(const float* numbers, float* error, std::size_t count, std::uint8_t* bytes);

/// Whether no block of `bytes` [int8_bytes(count)] holds NaN or infinity.
bool int8_is_finite(const std::uint8_t* bytes, std::size_t count);

/// Sets `sum` [count] to `factor` times the sum of the numbers in `parts`, each [int8_bytes(count)], added in their
/// order.
void sum_int8(const std::vector<const std::uint8_t*>& parts, std::size_t count, float factor, float* sum);

}  // namespace lockstep
