#pragma once

#include <cstdint>

namespace lockstep {

/// Random numbers of one replica. LibTorch has one CPU generator for the process: replicas that compute side by side
/// would take its numbers in another order each time.
///
/// A value type: a copy goes on where the original was.
class RandomStream {
 public:
  explicit RandomStream(std::uint64_t seed = 0) : state_(seed) {}
  /// The next 64 random bits (SplitMix64: Steele, Lea and Flood, 2014).
  std::uint64_t next() {
    std::uint64_t bits = (state_ += 0x9e3779b97f4a7c15ULL);
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9ULL;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebULL;
    return bits ^ (bits >> 31);
  }

 private:
  std::uint64_t state_;
};

/// The stream that the calling thread draws from in place of LibTorch's generator; null outside of replicas.
RandomStream* current_random_stream() noexcept;

/// Makes a stream the calling thread's while it lives. The stream must outlive it.
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
