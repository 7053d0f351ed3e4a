#include "lockstep/train/stop_signal.h"

#include <time.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/signals.h"

namespace lockstep {
namespace {

constexpr std::size_t kRequests = 3;
constexpr std::array<int, kRequests + kWarningSignals.size()> kStopSignals = [] {
  std::array<int, kRequests + kWarningSignals.size()> all{SIGTERM, SIGINT, SIGHUP};
  for (std::size_t i = 0; i < kWarningSignals.size(); ++i) all[kRequests + i] = kWarningSignals[i];
  return all;
}();
constexpr std::int64_t kNever = -1;

std::mutex stop_signal_mutex;
int stop_signal_users = 0;
std::array<struct sigaction, kStopSignals.size()> stop_signals_before{};
sigset_t blocked_before{};
volatile std::sig_atomic_t stop_signal_came = 0;
std::atomic<std::int64_t> first_request_ms{kNever};
std::atomic<std::int64_t> same_request_ms{0};
static_assert(std::atomic<std::int64_t>::is_always_lock_free, "a signal handler uses it");

std::int64_t now_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

bool is_asked_again() {
  const std::int64_t now = now_ms();
  std::int64_t first = kNever;
  return !first_request_ms.compare_exchange_strong(first, now) && now - first >= same_request_ms;
}

// Calls what a signal handler may call only.
extern "C" void lockstep_note_stop_signal(int number) {
  const int code = errno;
  if (stop_signal_came == 0) stop_signal_came = number;
  for (std::size_t i = 0; i < kRequests; ++i) {
    if (number != kStopSignals[i] || !is_asked_again()) continue;
    ::sigaction(number, &stop_signals_before[i], nullptr);
    ::raise(number);  // is delivered when this handler returns
  }
  errno = code;
}

// SIGTERM and SIGUSR1 always ask a training to stop. An interrupt that is ignored stays ignored. A program that handles
// or ignores SIGHUP (as nohup does) or another warning keeps its own meaning of that.
bool keeps_its_meaning(int number, const struct sigaction& before) {
  if (number == SIGTERM || number == SIGUSR1) return false;
  return number == SIGINT ? before.sa_handler == SIG_IGN : before.sa_handler != SIG_DFL;
}

// After the training such a warning has nothing to save any more, and would end the process before its work is done.
bool was_kept_for_training(int number) {
  return is_warning_signal(number) && ::sigismember(&blocked_before, number) == 1;
}

}  // namespace

StopSignal::StopSignal(std::chrono::milliseconds same_request) {
  const std::lock_guard<std::mutex> lock(stop_signal_mutex);
  if (stop_signal_users == 0) {
    stop_signal_came = 0;
    first_request_ms = kNever;
    same_request_ms = same_request.count();
    struct sigaction action {};
    action.sa_handler = lockstep_note_stop_signal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    for (std::size_t i = 0; i < kStopSignals.size(); ++i) {
      if (::sigaction(kStopSignals[i], &action, &stop_signals_before[i]) != 0) {
        throw Error(std::string("cannot catch SIG") + ::sigabbrev_np(kStopSignals[i]) + ": " + errno_text(errno),
                    "StopSignal", "set enable_jit_checkpoint to false");
      }
      if (keeps_its_meaning(kStopSignals[i], stop_signals_before[i])) {
        ::sigaction(kStopSignals[i], &stop_signals_before[i], nullptr);
      }
    }
    const sigset_t warnings = warning_signal_set();
    ::pthread_sigmask(SIG_UNBLOCK, &warnings, &blocked_before);  // takes note of those that arrived before
  }
  ++stop_signal_users;
}

StopSignal::~StopSignal() {
  const std::lock_guard<std::mutex> lock(stop_signal_mutex);
  if (--stop_signal_users > 0) return;
  for (std::size_t i = 0; i < kStopSignals.size(); ++i) {
    struct sigaction after = stop_signals_before[i];
    if (was_kept_for_training(kStopSignals[i])) after.sa_handler = SIG_IGN;
    ::sigaction(kStopSignals[i], &after, nullptr);
  }
}

int StopSignal::received() const { return stop_signal_came; }

}  // namespace lockstep
