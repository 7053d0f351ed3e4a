#pragma once

#include <cstdint>

namespace lockstep {

/// The generator SplitMix64 (Steele, Lea and Flood, 2014, doi:10.1145/2660193.2660195): same numbers on every machine.
class SplitMix {
 public:
  explicit SplitMix(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
  /// From `low` to `high`, both included and less than 2^31 apart.
  int between(int low, int high) {
    const auto span = static_cast<std::uint64_t>(std::int64_t{high} - low) + 1;
    return static_cast<int>(low + static_cast<std::int64_t>((next() >> 32) * span >> 32));
  }

 private:
  std::uint64_t state_;
};

}  // namespace lockstep
