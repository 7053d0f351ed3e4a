#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace lockstep {

/// Sleeps until `futex_wake_all` on this word, but at most for `timeout`. Returns at once if the word is no longer
/// `seen`. May return without a reason. Works between processes.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t seen, std::chrono::nanoseconds timeout) noexcept;

/// Wakes all threads that wait on `word`, in all processes.
void futex_wake_all(std::atomic<std::uint32_t>& word) noexcept;

}  // namespace lockstep
