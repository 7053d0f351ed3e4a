#pragma once

#include <chrono>

#include "lockstep/comm/shm/control_block.h"

namespace lockstep::shm {

/// Sleeps until `wake_all` on the same word, unless the word is no longer `seen`, and at most `timeout`. May return for
/// no reason. Works between processes.
void wait_on(HalfWord& word, std::uint32_t seen, std::chrono::nanoseconds timeout) noexcept;

/// Wakes all who wait on `word`, in all processes.
void wake_all(HalfWord& word) noexcept;

}  // namespace lockstep::shm
