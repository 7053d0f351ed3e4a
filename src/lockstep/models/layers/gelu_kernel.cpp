// Compiled with OpenMP, without which LibTorch's at::parallel_for is a plain call.
#include "lockstep/models/layers/gelu_kernel.h"

#include <ATen/Parallel.h>

#include <cstring>

#include "lockstep/base/processor/instruction_set.h"
#include "lockstep/models/layers/value_blocks.h"

namespace lockstep {
namespace {

#if defined(__x86_64__)
#define LOCKSTEP_GELU_X86_TARGETS 1
#endif

// Behind it Φ(-x) is below 2e-33, and counts as 0.
constexpr float kGeluEnd = 12;

// exp(-h) for h in [0, 80]: 2^n · exp(r) with |r| <= ln 2 / 2, and Taylor's polynomial, whose error is 5e-9.
inline __attribute__((always_inline)) float exp_of_minus(float h) {
  constexpr float kRounds = 12582912;  // 1.5 · 2^23: adding it leaves the nearest whole number in the last bits
  constexpr float kLog2E = 1.44269504F;
  constexpr float kLn2High = 0.693359375F, kLn2Low = -2.12194440e-4F;
  const float shifted = -h * kLog2E + kRounds;
  const float n = shifted - kRounds;
  const float r = (-h - n * kLn2High) - n * kLn2Low;
  std::uint32_t bits = 0;
  std::memcpy(&bits, &shifted, sizeof(bits));
  bits = (bits << 23) + 0x3f800000U;
  float power = 0;
  std::memcpy(&power, &bits, sizeof(power));
  float sum = 1.0F / 5040;
  sum = sum * r + 1.0F / 720;
  sum = sum * r + 1.0F / 120;
  sum = sum * r + 1.0F / 24;
  sum = sum * r + 1.0F / 6;
  sum = sum * r + 0.5F;
  sum = sum * r + 1;
  sum = sum * r + 1;
  return sum * power;
}

struct NormalDistribution {
  float below;    // Φ(x)
  float density;  // φ(x)
};

// Φ(-|x|) = exp(-x²/2) · t · P(t) with t = 1 / (1 + 0.3 |x|), as Hastings (1955) has it. P was fitted to the least
// relative error for |x| <= 12, which is 9e-8.
inline __attribute__((always_inline)) NormalDistribution normal_of(float x) {
  constexpr float kInverseRoot = 0.3989422804F;  // 1 / sqrt(2 π)
  const float size = x < 0 ? -x : x;
  const bool is_inside = size < kGeluEnd;  // not if x is a NaN
  const float a = is_inside ? size : kGeluEnd;
  const float e = exp_of_minus(a * a * 0.5F);
  const float t = 1 / (1 + 0.3F * a);
  float sum = 0.0367417410F;
  sum = sum * t - 0.1616801576F;
  sum = sum * t + 0.2141342461F;
  sum = sum * t - 0.0609212108F;
  sum = sum * t + 0.1324408352F;
  sum = sum * t + 0.0987190380F;
  sum = sum * t + 0.1209490970F;
  sum = sum * t + 0.1196162701F;
  const float tail = is_inside ? sum * t * e : 0.0F;
  return {x >= 0 ? 1 - tail : tail, is_inside ? e * kInverseRoot : 0.0F};
}

using Half = c10::BFloat16;

inline __attribute__((always_inline)) void run_gelu_block(const Half* x, const Half* dy, Half* dx) {
  float values[kValueBlock], gradients[kValueBlock];
  load_block(x, values);
  load_block(dy, gradients);
  for (std::int64_t i = 0; i < kValueBlock; ++i) {
    const NormalDistribution normal = normal_of(values[i]);
    gradients[i] *= normal.below + values[i] * normal.density;
  }
  store_block(gradients, dx);
}

// A last, partial block is padded with zeros, so that it runs through the same code.
inline __attribute__((always_inline)) void run_gelu(const Half* x, const Half* dy, Half* dx, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + kValueBlock <= count; i += kValueBlock) run_gelu_block(x + i, dy + i, dx + i);
  const auto rest = static_cast<std::size_t>(count - i) * sizeof(Half);
  if (rest == 0) return;
  Half values[kValueBlock] = {}, gradients[kValueBlock] = {}, results[kValueBlock];
  std::memcpy(static_cast<void*>(values), x + i, rest);
  std::memcpy(static_cast<void*>(gradients), dy + i, rest);
  run_gelu_block(values, gradients, results);
  std::memcpy(static_cast<void*>(dx + i), results, rest);
}

#if LOCKSTEP_GELU_X86_TARGETS
__attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,fma"))) void run_gelu_avx512(const Half* x, const Half* dy,
                                                                                       Half* dx, std::int64_t count) {
  run_gelu(x, dy, dx, count);
}
__attribute__((target("avx2,fma"))) void run_gelu_avx2(const Half* x, const Half* dy, Half* dx, std::int64_t count) {
  run_gelu(x, dy, dx, count);
}
#endif

void run_gelu_plain(const Half* x, const Half* dy, Half* dx, std::int64_t count) { run_gelu(x, dy, dx, count); }

auto best_gelu() {
#if LOCKSTEP_GELU_X86_TARGETS
  const InstructionSet widest = widest_instruction_set();
  if (widest == InstructionSet::Avx512) return run_gelu_avx512;
  if (widest == InstructionSet::Avx2) return run_gelu_avx2;
#endif
  return run_gelu_plain;
}

}  // namespace

void gelu_gradients(const c10::BFloat16* x, const c10::BFloat16* dy, c10::BFloat16* dx, std::int64_t count) {
  static const auto run = best_gelu();
  constexpr std::int64_t kGrain = 1 << 15;
  at::parallel_for(0, count, kGrain,
                   [&](std::int64_t begin, std::int64_t end) { run(x + begin, dy + begin, dx + begin, end - begin); });
}

}  // namespace lockstep
