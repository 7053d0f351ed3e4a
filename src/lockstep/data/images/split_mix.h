#pragma once

#include <cstdint>

#include "lockstep/base/random/mix_bits.h"

namespace lockstep {

/// The generator SplitMix64 (Steele, Lea and Flood, 2014, doi:10.1145/2660193.2660195): equal numbers on every machine.
class SplitMix {
 public:
  explicit SplitMix(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() { return next_split_mix(state_); }
  /// A number from `low` to `high`, both included and less than 2^31 apart.
  int between(int low, int high) {
    const auto span = static_cast<std::uint64_t>(std::int64_t{high} - low) + 1;
    return static_cast<int>(low + static_cast<std::int64_t>((next() >> 32) * span >> 32));
  }

 private:
  std::uint64_t state_;
};

}  // namespace lockstep
