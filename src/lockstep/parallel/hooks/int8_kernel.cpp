// Blocks of 8 bits, with the processor's widest vectors. Loops have the constant length of a block, so that the
// compiler vectorises them at -O2.
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>

#include "lockstep/base/processor/instruction_set.h"
#include "lockstep/parallel/hooks/int8_blocks.h"

// No multiplication is fused with a following addition, so that every processor computes the same bits from the same
// bytes and ranks on different processors stay equal.
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#endif

namespace lockstep {
namespace {

#if defined(__x86_64__)
#define LOCKSTEP_INT8_TARGETS 1
#endif
#define LOCKSTEP_INT8_INLINE inline __attribute__((always_inline))

constexpr float kLargestInt8 = 127;
constexpr std::uint32_t kMagnitudeBits = 0x7fffffff;
constexpr std::uint32_t kInfinityBits = 0x7f800000;  // from this value on: infinity and NaN
// Adding and subtracting it rounds a number below 2^22 to the nearest whole number, as nearbyint does.
constexpr float kRounder = 12582912;

std::size_t int8_blocks_of(std::size_t count) { return (count + kInt8Block - 1) / kInt8Block; }

// The bits of magnitudes compare as the magnitudes do, and a NaN compares greater than all numbers.
LOCKSTEP_INT8_INLINE std::uint32_t largest_bits(const float* numbers) {
  std::uint32_t bits[kInt8Block];
  std::memcpy(bits, numbers, sizeof(bits));
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < kInt8Block; ++i) largest = std::max(largest, bits[i] & kMagnitudeBits);
  return largest;
}

/// @return  the block's factor
LOCKSTEP_INT8_INLINE float encode_block(const float* numbers, float* error, std::uint8_t* codes) {
  float sums[kInt8Block];
  for (std::size_t i = 0; i < kInt8Block; ++i) sums[i] = error[i] + numbers[i];
  const std::uint32_t bits = largest_bits(sums);
  if (bits >= kInfinityBits) {
    std::memset(codes, 0, kInt8Block);  // `error` stays as it was: numbers that cannot be sent leave no debt
    return std::numeric_limits<float>::quiet_NaN();
  }
  float largest = 0;
  std::memcpy(&largest, &bits, sizeof(largest));
  const float factor = largest / kLargestInt8;
  const float inverse = factor >= FLT_MIN ? 1 / factor : 0;  // the inverse of a smaller factor would be infinite
  for (std::size_t i = 0; i < kInt8Block; ++i) {
    const float whole = sums[i] * inverse + kRounder - kRounder;
    codes[i] = static_cast<std::uint8_t>(static_cast<std::int32_t>(whole));
    error[i] = sums[i] - whole * factor;
  }
  return factor;
}

LOCKSTEP_INT8_INLINE void decode_block(const std::uint8_t* codes, float factor, bool is_first, float* sum) {
  if (is_first) {
    for (std::size_t i = 0; i < kInt8Block; ++i)
      sum[i] = factor * static_cast<float>(static_cast<std::int8_t>(codes[i]));
  } else {
    for (std::size_t i = 0; i < kInt8Block; ++i)
      sum[i] += factor * static_cast<float>(static_cast<std::int8_t>(codes[i]));
  }
}

LOCKSTEP_INT8_INLINE void encode_all(const float* numbers, float* error, std::size_t count, std::uint8_t* bytes) {
  std::uint8_t* codes = bytes + int8_blocks_of(count) * sizeof(float);
  std::size_t begin = 0;
  for (; begin + kInt8Block <= count; begin += kInt8Block) {
    const float factor = encode_block(numbers + begin, error + begin, codes + begin);
    std::memcpy(bytes + begin / kInt8Block * sizeof(float), &factor, sizeof(factor));
  }
  const std::size_t rest = count - begin;
  if (rest == 0) return;
  float last_numbers[kInt8Block] = {};
  float last_error[kInt8Block] = {};
  std::uint8_t last_codes[kInt8Block];
  std::memcpy(last_numbers, numbers + begin, rest * sizeof(float));
  std::memcpy(last_error, error + begin, rest * sizeof(float));
  const float factor = encode_block(last_numbers, last_error, last_codes);
  std::memcpy(bytes + begin / kInt8Block * sizeof(float), &factor, sizeof(factor));
  std::memcpy(codes + begin, last_codes, rest);
  std::memcpy(error + begin, last_error, rest * sizeof(float));
}

LOCKSTEP_INT8_INLINE void sum_all(const std::uint8_t* const* parts, std::size_t part_count, std::size_t count,
                                  float factor, float* sum) {
  const std::size_t codes_offset = int8_blocks_of(count) * sizeof(float);
  for (std::size_t begin = 0; begin < count; begin += kInt8Block) {
    const std::size_t length = std::min(kInt8Block, count - begin);
    float last_sum[kInt8Block] = {};
    std::uint8_t last_codes[kInt8Block] = {};
    float* const out = length == kInt8Block ? sum + begin : last_sum;
    for (std::size_t part = 0; part < part_count; ++part) {
      float scale = 0;
      std::memcpy(&scale, parts[part] + begin / kInt8Block * sizeof(float), sizeof(scale));
      const std::uint8_t* codes = parts[part] + codes_offset + begin;
      if (length < kInt8Block) {
        std::memcpy(last_codes, codes, length);
        codes = last_codes;
      }
      decode_block(codes, scale * factor, part == 0, out);
    }
    if (out == last_sum) std::memcpy(sum + begin, last_sum, length * sizeof(float));
  }
}

struct Int8Kernel {
  void (*encode)(const float*, float*, std::size_t, std::uint8_t*);
  void (*sum)(const std::uint8_t* const*, std::size_t, std::size_t, float, float*);
};

// The code for one target; `attribute` may be empty.
#define LOCKSTEP_INT8_KERNEL(name, attribute)                                                                          \
  attribute void name##_encode(const float* numbers, float* error, std::size_t count, std::uint8_t* bytes) {           \
    encode_all(numbers, error, count, bytes);                                                                          \
  }                                                                                                                    \
  attribute void name##_sum(const std::uint8_t* const* parts, std::size_t part_count, std::size_t count, float factor, \
                            float* sum) {                                                                              \
    sum_all(parts, part_count, count, factor, sum);                                                                    \
  }

LOCKSTEP_INT8_KERNEL(plain, )
#if LOCKSTEP_INT8_TARGETS
LOCKSTEP_INT8_KERNEL(avx2, __attribute__((target("avx2"))))
LOCKSTEP_INT8_KERNEL(avx512, __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))))
#endif

Int8Kernel best_int8_kernel() {
#if LOCKSTEP_INT8_TARGETS
  const InstructionSet widest = widest_instruction_set();
  if (widest == InstructionSet::Avx512) return {&avx512_encode, &avx512_sum};
  if (widest == InstructionSet::Avx2) return {&avx2_encode, &avx2_sum};
#endif
  return {&plain_encode, &plain_sum};
}

const Int8Kernel& int8_kernel() {
  static const Int8Kernel kernel = best_int8_kernel();
  return kernel;
}

}  // namespace

std::size_t int8_bytes(std::size_t count) { return int8_blocks_of(count) * sizeof(float) + count; }

bool int8_is_finite(const std::uint8_t* bytes, std::size_t count) {
  for (std::size_t block = 0; block < int8_blocks_of(count); ++block) {
    float factor = 0;
    std::memcpy(&factor, bytes + block * sizeof(float), sizeof(factor));
    if (!std::isfinite(factor)) return false;
  }
  return true;
}

void to_int8(const float* numbers, float* error, std::size_t count, std::uint8_t* bytes) {
  int8_kernel().encode(numbers, error, count, bytes);
}

void sum_int8(const std::vector<const std::uint8_t*>& parts, std::size_t count, float factor, float* sum) {
  int8_kernel().sum(parts.data(), parts.size(), count, factor, sum);
}

}  // namespace lockstep
