#include "lockstep/base/spin.h"

#include <sched.h>

#include <algorithm>

#include "lockstep/base/environment.h"

namespace lockstep {
namespace {

// Longer than the wake-up of a sleeping core, short compared with a training step.
constexpr std::chrono::microseconds kSpin(100);
// A yield takes a tenth of the time of a sleep and a wake-up. This many let the other ranks run during small
// operations: with 8 instead of 64, four ranks on two cores slept in most waits and took five times as long at 4 KiB.
constexpr int kYields = 64;
// If other programs want the core, a yield takes as long as the turns of all of them, and 64 may take seconds, in which
// nobody looks for lost ranks. Then sleeping costs less.
constexpr std::chrono::milliseconds kLongestYielding(20);

}  // namespace

bool Spin::yield_again() noexcept {
  if (turns_++ >= static_cast<std::uint32_t>(policy_.yields)) return false;
  const auto now = std::chrono::steady_clock::now();
  if (end_ == std::chrono::steady_clock::time_point{}) end_ = now + kLongestYielding;
  if (now >= end_) return false;
  ::sched_yield();
  return true;
}

bool Spin::time_left() noexcept {
  const auto now = std::chrono::steady_clock::now();
  if (end_ == std::chrono::steady_clock::time_point{}) end_ = now + policy_.spin;
  return now < end_;
}

SpinPolicy choose_spin_policy(const std::uint64_t* masks, int words_per_mask, int world_size, int core_limit) {
  if (const auto us = env_int("LOCKSTEP_SPIN_US")) {
    return {std::chrono::microseconds(std::clamp<std::int64_t>(*us, 0, 1'000'000)), kYields};
  }
  for (int rank = 0; rank < world_size; ++rank) {
    if (cores_per_rank(masks, words_per_mask, world_size, core_limit, rank) == 0) return {{}, kYields};
  }
  return {kSpin, 0};
}

int cores_per_rank(const std::uint64_t* masks, int words_per_mask, int world_size, int core_limit, int rank) {
  const std::uint64_t* mine = masks + rank * words_per_mask;
  int cores = 0;
  for (int w = 0; w < words_per_mask; ++w) cores += __builtin_popcountll(mine[w]);
  int sharers = 0;
  for (int other = 0; other < world_size; ++other) {
    const std::uint64_t* theirs = masks + other * words_per_mask;
    bool inside = true;
    for (int w = 0; w < words_per_mask; ++w) inside = inside && (theirs[w] & ~mine[w]) == 0;
    sharers += inside ? 1 : 0;
  }
  return std::min(cores / sharers, core_limit / world_size);
}

}  // namespace lockstep
