#pragma once

#include <chrono>
#include <cstdint>

namespace lockstep {

/// How long a wait keeps its core before it sleeps in the kernel.
struct SpinPolicy {
  std::chrono::nanoseconds spin{0};  ///< zero if ranks share cores: the awaited rank may need this core
  int yields = 0;                    ///< times the core is offered to other threads before sleeping
};

/// Signals the processor that this is a spin wait.
inline void relax_cpu() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

/// One wait's spinning.
class Spin {
 public:
  explicit Spin(const SpinPolicy& policy) noexcept : policy_(policy) {}
  /// Lets a moment pass; false once it is time to sleep.
  bool again() noexcept {
    if (policy_.spin.count() == 0) return yield_again();
    ++turns_;
    if (turns_ < kEager) return true;
    relax_cpu();
    return turns_ % kTurnsPerClock != 0 || time_left();
  }

 private:
  static constexpr std::uint32_t kEager = 32;  // a peer that is nearly ready: a pause costs more than it saves
  static constexpr std::uint32_t kTurnsPerClock = 64;
  bool yield_again() noexcept;
  bool time_left() noexcept;

  const SpinPolicy& policy_;
  std::uint32_t turns_ = 0;
  std::chrono::steady_clock::time_point end_{};
};

/// Cores for `rank` alone, if it shares the cores of its mask evenly with the ranks that have only these; 0 if there
/// are fewer cores than ranks.
int cores_per_rank(const std::uint64_t* masks, int words_per_mask, int world_size, int core_limit, int rank);

/// For ranks whose affinity masks (bit per core) are `masks`: spins if each rank can have its own core.
/// LOCKSTEP_SPIN_US in the environment takes precedence.
/// @param core_limit  cores that a CPU quota allows all of them together
SpinPolicy choose_spin_policy(const std::uint64_t* masks, int words_per_mask, int world_size, int core_limit);

}  // namespace lockstep
