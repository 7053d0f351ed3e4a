#pragma once

#include <cstdint>

#include "lockstep/base/random/mix_bits.h"

namespace lockstep {

/// Random numbers of one replica. LibTorch has one CPU generator per process: replicas that compute side by side would
/// draw from it in a different order each time.
///
/// A value type: a copy continues where the original was.
class RandomStream {
 public:
  explicit RandomStream(std::uint64_t seed = 0) : state_(seed) {}
  /// The next 64 random bits, from the generator SplitMix64.
  std::uint64_t next() { return next_split_mix(state_); }

 private:
  std::uint64_t state_;
};

/// The stream that the calling thread uses instead of LibTorch's generator; null outside of replicas.
RandomStream* current_random_stream() noexcept;

/// Makes a stream the current one of the calling thread while this object lives. The stream must outlive it.
class RandomStreamGuard {
 public:
  explicit RandomStreamGuard(RandomStream* stream) noexcept;
  ~RandomStreamGuard();
  RandomStreamGuard(const RandomStreamGuard&) = delete;
  RandomStreamGuard& operator=(const RandomStreamGuard&) = delete;

 private:
  RandomStream* before_;
};

}  // namespace lockstep
