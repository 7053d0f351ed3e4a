#include "lockstep/comm/shm/spin.h"

#include <sched.h>

#include <algorithm>

#include "lockstep/base/environment.h"

namespace lockstep::shm {
namespace {

// Longer than the wake of a sleeping core takes, short against a training step.
constexpr std::chrono::microseconds kSpin(100);
// A yield costs a quarter of a sleep and a wake; a few are enough for the others' turns.
constexpr int kYields = 8;

// A rank is short of a core where more ranks than its mask has cores run on nothing but its cores.
bool cores_are_shared(const std::uint64_t* masks, int words, int world_size) {
  for (int mine = 0; mine < world_size; ++mine) {
    int cores = 0;
    for (int w = 0; w < words; ++w) cores += __builtin_popcountll(masks[mine * words + w]);
    int inside = 0;
    for (int other = 0; other < world_size; ++other) {
      bool subset = true;
      for (int w = 0; w < words; ++w) subset = subset && (masks[other * words + w] & ~masks[mine * words + w]) == 0;
      inside += subset ? 1 : 0;
    }
    if (inside > cores) return true;
  }
  return false;
}

}  // namespace

bool Spin::yield_again() noexcept {
  if (turns_++ >= static_cast<std::uint32_t>(policy_.yields)) return false;
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
  if (world_size > core_limit || cores_are_shared(masks, words_per_mask, world_size)) return {{}, kYields};
  return {kSpin, 0};
}

}  // namespace lockstep::shm
