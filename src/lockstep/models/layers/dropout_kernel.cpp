#include "lockstep/models/layers/dropout_kernel.h"

#include <cstring>
#include <type_traits>

#include "lockstep/base/processor/instruction_set.h"
#include "lockstep/base/random/mix_bits.h"
#include "lockstep/models/layers/value_blocks.h"

namespace lockstep {
namespace {

#if defined(__x86_64__)
#define LOCKSTEP_X86_TARGETS 1
#endif

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

// The type in which values of In and Out are computed.
template <typename In>
using Computed = std::conditional_t<std::is_same_v<In, double>, double, float>;

template <bool kHasResidual, typename In, typename Out>
inline __attribute__((always_inline)) void run_block(const In* x, const Out* residual, Out* out, std::uint32_t position,
                                                     const Draw& draw) {
  using T = Computed<In>;
  const T scale = static_cast<T>(draw.scale);
  T values[kValueBlock];
  T sums[kValueBlock];
  load_block(x, values);
  if (kHasResidual) load_block(residual, sums);
  for (std::int64_t i = 0; i < kValueBlock; ++i) {
    const bool stays = bits_of(position + static_cast<std::uint32_t>(i), draw.keys) >= draw.threshold;
    const T kept = stays ? values[i] * scale : T(0);
    values[i] = kHasResidual ? kept + sums[i] : kept;
  }
  store_block(values, out);
}

// The positions of one stretch. A last, partial block is padded with zeros, so that it runs through the same code.
template <bool kHasResidual, typename In, typename Out>
inline __attribute__((always_inline)) void run_stretch(const In* x, const Out* residual, Out* out, std::int64_t count,
                                                       const Draw& draw) {
  std::int64_t i = 0;
  for (; i + kValueBlock <= count; i += kValueBlock) {
    run_block<kHasResidual>(x + i, residual + (kHasResidual ? i : 0), out + i, static_cast<std::uint32_t>(i), draw);
  }
  const auto rest = static_cast<std::size_t>(count - i);
  if (rest == 0) return;
  In values[kValueBlock] = {};
  Out sums[kValueBlock] = {};
  Out results[kValueBlock];
  std::memcpy(static_cast<void*>(values), x + i, rest * sizeof(In));
  if (kHasResidual) std::memcpy(static_cast<void*>(sums), residual + i, rest * sizeof(Out));
  run_block<kHasResidual>(values, sums, results, static_cast<std::uint32_t>(i), draw);
  std::memcpy(static_cast<void*>(out + i), results, rest * sizeof(Out));
}

#if LOCKSTEP_X86_TARGETS
template <bool kHasResidual, typename In, typename Out>
__attribute__((target("avx512f,avx512dq,avx512vl,avx512bw"))) void run_avx512(const In* x, const Out* residual,
                                                                              Out* out, std::int64_t count,
                                                                              const Draw& draw) {
  run_stretch<kHasResidual>(x, residual, out, count, draw);
}
template <bool kHasResidual, typename In, typename Out>
__attribute__((target("avx2"))) void run_avx2(const In* x, const Out* residual, Out* out, std::int64_t count,
                                              const Draw& draw) {
  run_stretch<kHasResidual>(x, residual, out, count, draw);
}
#endif

template <bool kHasResidual, typename In, typename Out>
void run_plain(const In* x, const Out* residual, Out* out, std::int64_t count, const Draw& draw) {
  run_stretch<kHasResidual>(x, residual, out, count, draw);
}

template <bool kHasResidual, typename In, typename Out>
auto best_for_this_processor() {
#if LOCKSTEP_X86_TARGETS
  const InstructionSet widest = widest_instruction_set();
  if (widest == InstructionSet::Avx512) return run_avx512<kHasResidual, In, Out>;
  if (widest == InstructionSet::Avx2) return run_avx2<kHasResidual, In, Out>;
#endif
  return run_plain<kHasResidual, In, Out>;
}

template <bool kHasResidual, typename In, typename Out>
void run(const In* x, const Out* residual, Out* out, std::int64_t count, DropoutDraw request) {
  static const auto run_positions = best_for_this_processor<kHasResidual, In, Out>();
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
void drop_values(const c10::BFloat16* x, c10::BFloat16* out, std::int64_t count, DropoutDraw draw) {
  run<false>(x, static_cast<const c10::BFloat16*>(nullptr), out, count, draw);
}
void drop_and_add_values(const float* x, const float* residual, float* out, std::int64_t count, DropoutDraw draw) {
  run<true>(x, residual, out, count, draw);
}
void drop_and_add_values(const double* x, const double* residual, double* out, std::int64_t count, DropoutDraw draw) {
  run<true>(x, residual, out, count, draw);
}
void drop_and_add_values(const c10::BFloat16* x, const float* residual, float* out, std::int64_t count,
                         DropoutDraw draw) {
  run<true>(x, residual, out, count, draw);
}

}  // namespace lockstep
