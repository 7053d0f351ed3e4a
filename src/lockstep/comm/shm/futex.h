#pragma once

#include <chrono>

#include "lockstep/comm/shm/control_block.h"

namespace lockstep::shm {

/// Sleeps until `futex_wake_all` on the same word, unless the word is no longer `seen`, and at most `timeout`. May
/// return for no reason. Works between processes.
void futex_wait(HalfWord& word, std::uint32_t seen, std::chrono::nanoseconds timeout) noexcept;

/// Wakes all who wait on `word`, in all processes.
void futex_wake_all(HalfWord& word) noexcept;

}  // namespace lockstep::shm
