#pragma once

#include <cstdint>

namespace lockstep {

/// SplitMix64's finaliser (Steele, Lea and Flood, 2014, doi:10.1145/2660193.2660195): every bit of the input affects
/// every bit of the result, and different inputs have different results.
constexpr std::uint64_t mix_bits(std::uint64_t bits) noexcept {
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9ULL;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebULL;
  return bits ^ (bits >> 31);
}

/// SplitMix64: advances `state` and returns the next number. The numbers are equal on every machine.
constexpr std::uint64_t next_split_mix(std::uint64_t& state) noexcept {
  return mix_bits(state += 0x9e3779b97f4a7c15ULL);
}

/// Adds `value` to `digest`. Values in another order give another digest.
constexpr void mix_into(std::uint64_t& digest, std::uint64_t value) noexcept {
  digest = mix_bits(digest ^ mix_bits(value + 1));
}

}  // namespace lockstep
