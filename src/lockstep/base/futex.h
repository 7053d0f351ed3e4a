#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace lockstep {

/// Sleeps until `futex_wake_all` on the same word, unless the word is no longer `seen`, and at most `timeout`. May
/// return for no reason. Works between processes.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t seen, std::chrono::nanoseconds timeout) noexcept;

/// Wakes all who wait on `word`, in all processes.
void futex_wake_all(std::atomic<std::uint32_t>& word) noexcept;

}  // namespace lockstep
