#pragma once

#include <chrono>
#include <cstdint>

namespace lockstep::simulation {

/// Random numbers that a seed fixes on every machine (SplitMix64, Steele et al., 2014).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t mixed = (state_ += 0x9E3779B97F4A7C15ULL);
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9ULL;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBULL;
    return mixed ^ (mixed >> 31);
  }
  /// At least 0 and below `count`.
  int below(int count) { return static_cast<int>(next() % static_cast<std::uint64_t>(count)); }
  /// At least `low` and at most `high`.
  int between(int low, int high) { return low + below(high - low + 1); }
  bool chance(int percent) { return below(100) < percent; }
  std::chrono::nanoseconds time(std::chrono::nanoseconds low, std::chrono::nanoseconds high) {
    const auto span = static_cast<std::uint64_t>((high - low).count()) + 1;
    return low + std::chrono::nanoseconds(static_cast<std::int64_t>(next() % span));
  }

 private:
  std::uint64_t state_;
};

}  // namespace lockstep::simulation
