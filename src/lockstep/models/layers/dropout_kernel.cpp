#include "lockstep/models/layers/dropout_kernel.h"

#include <cstring>

#include "lockstep/base/mix_bits.h"
#include "lockstep/base/processor/instruction_set.h"

namespace lockstep {
namespace {

#if defined(__x86_64__)
#define LOCKSTEP_X86_TARGETS 1
#endif

// A block has a constant length, so that the compiler turns the loop into vector code at -O2.
constexpr std::int64_t kBlock = 64;

struct Keys {
  std::uint32_t first;
  std::uint32_t second;
};

// The keys of 2^32 positions: number `stretch` of the generator SplitMix64.
Keys keys_of(std::uint64_t seed, std::uint64_t stretch) {
  const std::uint64_t bits = mix_bits(seed + 0x9e3779b97f4a7c15U * (stretch + 1));
  return {static_cast<std::uint32_t>(bits), static_cast<std::uint32_t>(bits >> 32)};
}

// 32 random bits for a position: three rounds of shift and multiply, with half of the key mixed in between, so that two
// draws are not permutations of each other. (Constants: Wellons, hash-prospector, triple32)
inline __attribute__((always_inline)) std::uint32_t bits_of(std::uint32_t position, Keys keys) {
  std::uint32_t h = position ^ keys.first;
  h ^= h >> 17;
  h *= 0xed5ad4bbU;
  h += keys.second;
  h ^= h >> 11;
  h *= 0xac4c1b51U;
  h ^= h >> 15;
  h *= 0x31848babU;
  return h ^ (h >> 14);
}

struct Draw {
  Keys keys;
  std::uint32_t threshold;  // bits below it drop the value
  double scale;
};

// Copies through local arrays, which tell the compiler that input and output do not overlap partly.
template <bool kHasResidual, typename T>
inline __attribute__((always_inline)) void run_block(const T* x, const T* residual, T* out, std::uint32_t position,
                                                     const Draw& draw) {
  const T scale = static_cast<T>(draw.scale);
  T values[kBlock];
  T sums[kBlock];
  std::memcpy(values, x, sizeof(values));
  if (kHasResidual) std::memcpy(sums, residual, sizeof(sums));
  for (std::int64_t i = 0; i < kBlock; ++i) {
    const bool stays = bits_of(position + static_cast<std::uint32_t>(i), draw.keys) >= draw.threshold;
    const T kept = stays ? values[i] * scale : T(0);
    values[i] = kHasResidual ? kept + sums[i] : kept;
  }
  std::memcpy(out, values, sizeof(values));
}

// The positions of one stretch. A last, partial block is padded with zeros, so that it runs through the same code.
template <bool kHasResidual, typename T>
inline __attribute__((always_inline)) void run_stretch(const T* x, const T* residual, T* out, std::int64_t count,
                                                       const Draw& draw) {
  std::int64_t i = 0;
  for (; i + kBlock <= count; i += kBlock) {
    run_block<kHasResidual>(x + i, residual + (kHasResidual ? i : 0), out + i, static_cast<std::uint32_t>(i), draw);
  }
  const auto rest_bytes = static_cast<std::size_t>(count - i) * sizeof(T);
  if (rest_bytes == 0) return;
  T values[kBlock] = {};
  T sums[kBlock] = {};
  std::memcpy(values, x + i, rest_bytes);
  if (kHasResidual) std::memcpy(sums, residual + i, rest_bytes);
  run_block<kHasResidual>(values, sums, values, static_cast<std::uint32_t>(i), draw);
  std::memcpy(out + i, values, rest_bytes);
}

#if LOCKSTEP_X86_TARGETS
template <bool kHasResidual, typename T>
__attribute__((target("avx512f,avx512dq,avx512vl,avx512bw"))) void run_avx512(const T* x, const T* residual, T* out,
                                                                              std::int64_t count, const Draw& draw) {
  run_stretch<kHasResidual>(x, residual, out, count, draw);
}
template <bool kHasResidual, typename T>
__attribute__((target("avx2"))) void run_avx2(const T* x, const T* residual, T* out, std::int64_t count,
                                              const Draw& draw) {
  run_stretch<kHasResidual>(x, residual, out, count, draw);
}
#endif

template <bool kHasResidual, typename T>
void run_plain(const T* x, const T* residual, T* out, std::int64_t count, const Draw& draw) {
  run_stretch<kHasResidual>(x, residual, out, count, draw);
}

template <bool kHasResidual, typename T>
auto best_for_this_processor() {
#if LOCKSTEP_X86_TARGETS
  const InstructionSet widest = widest_instruction_set();
  if (widest == InstructionSet::Avx512) return run_avx512<kHasResidual, T>;
  if (widest == InstructionSet::Avx2) return run_avx2<kHasResidual, T>;
#endif
  return run_plain<kHasResidual, T>;
}

template <bool kHasResidual, typename T>
void run(const T* x, const T* residual, T* out, std::int64_t count, DropoutDraw request) {
  static const auto run_positions = best_for_this_processor<kHasResidual, T>();
  constexpr double kRange = 4294967296.0;
  const bool drops_all = request.p >= 1;
  Draw draw;
  // p = 1 keeps no value. The threshold 2^32 - 1 would keep one value in 2^32, so the scale is zero.
  draw.threshold = drops_all ? UINT32_MAX : static_cast<std::uint32_t>(request.p * kRange);
  draw.scale = drops_all ? 0 : 1 / (1 - request.p);
  constexpr std::int64_t kStretch = std::int64_t{1} << 32;
  for (std::int64_t begin = 0; begin < count; begin += kStretch) {
    draw.keys = keys_of(request.seed, static_cast<std::uint64_t>(begin / kStretch));
    const std::int64_t length = count - begin < kStretch ? count - begin : kStretch;
    run_positions(x + begin, residual + (kHasResidual ? begin : 0), out + begin, length, draw);
  }
}

}  // namespace

void drop_values(const float* x, float* out, std::int64_t count, DropoutDraw draw) {
  run<false>(x, static_cast<const float*>(nullptr), out, count, draw);
}
void drop_values(const double* x, double* out, std::int64_t count, DropoutDraw draw) {
  run<false>(x, static_cast<const double*>(nullptr), out, count, draw);
}
void drop_and_add_values(const float* x, const float* residual, float* out, std::int64_t count, DropoutDraw draw) {
  run<true>(x, residual, out, count, draw);
}
void drop_and_add_values(const double* x, const double* residual, double* out, std::int64_t count, DropoutDraw draw) {
  run<true>(x, residual, out, count, draw);
}

}  // namespace lockstep
