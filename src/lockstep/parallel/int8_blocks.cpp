#include "lockstep/parallel/int8_blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace lockstep {
namespace {

constexpr float kLargestInt8 = 127;

std::size_t blocks_of(std::size_t count) { return (count + kInt8Block - 1) / kInt8Block; }

}  // namespace

std::size_t int8_bytes(std::size_t count) { return blocks_of(count) * sizeof(float) + count; }

void to_int8(const float* numbers, float* error, std::size_t count, std::uint8_t* bytes) {
  std::uint8_t* codes = bytes + blocks_of(count) * sizeof(float);
  for (std::size_t begin = 0; begin < count; begin += kInt8Block) {
    const std::size_t end = std::min(begin + kInt8Block, count);
    float largest = 0;
    float poison = 0;  // becomes NaN where a number is NaN or infinite: 0 times it
    for (std::size_t i = begin; i < end; ++i) {
      error[i] += numbers[i];
      largest = std::max(largest, std::fabs(error[i]));
      poison += 0 * error[i];
    }
    const float factor = largest / kLargestInt8 + poison;
    std::memcpy(bytes + begin / kInt8Block * sizeof(float), &factor, sizeof(float));
    const float inverse = factor > 0 ? 1 / factor : 0;
    for (std::size_t i = begin; i < end; ++i) {
      const auto code =
          static_cast<std::int8_t>(std::nearbyint(std::isfinite(error[i] * inverse) ? error[i] * inverse : 0));
      codes[i] = static_cast<std::uint8_t>(code);
      error[i] -= static_cast<float>(code) * factor;
    }
  }
}

void add_int8(const std::uint8_t* bytes, std::size_t count, float factor, float* sum) {
  const std::uint8_t* codes = bytes + blocks_of(count) * sizeof(float);
  for (std::size_t begin = 0; begin < count; begin += kInt8Block) {
    float scale = 0;
    std::memcpy(&scale, bytes + begin / kInt8Block * sizeof(float), sizeof(float));
    scale *= factor;
    const std::size_t end = std::min(begin + kInt8Block, count);
    for (std::size_t i = begin; i < end; ++i) sum[i] += scale * static_cast<float>(static_cast<std::int8_t>(codes[i]));
  }
}

}  // namespace lockstep
