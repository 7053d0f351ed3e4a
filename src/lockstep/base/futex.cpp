#include "lockstep/base/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

namespace lockstep {

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t seen, std::chrono::nanoseconds timeout) noexcept {
  if (timeout.count() <= 0) return;
  const auto whole = std::chrono::duration_cast<std::chrono::seconds>(timeout);
  timespec limit{};
  limit.tv_sec = static_cast<time_t>(whole.count());
  limit.tv_nsec = static_cast<long>((timeout - whole).count());
  ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &limit, nullptr, 0);
}

void futex_wake_all(std::atomic<std::uint32_t>& word) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace lockstep
