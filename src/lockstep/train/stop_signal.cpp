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

namespace lockstep {
namespace {

constexpr std::array<int, 3> kStopSignals{SIGTERM, SIGINT, SIGUSR1};
constexpr std::int64_t kNever = -1;

std::mutex stop_signal_mutex;
int stop_signal_users = 0;
std::array<struct sigaction, kStopSignals.size()> stop_signals_before{};
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
extern "C" void take_note_of_stop_signal(int number) {
  const int code = errno;
  if (stop_signal_came == 0) stop_signal_came = number == SIGINT ? SIGINT : SIGTERM;
  if (number != SIGUSR1 && is_asked_again()) {
    ::sigaction(number, &stop_signals_before[number == SIGTERM ? 0 : 1], nullptr);
    ::raise(number);  // is delivered when this handler returns
  }
  errno = code;
}
static_assert(kStopSignals[0] == SIGTERM && kStopSignals[1] == SIGINT);

bool is_ignored_interrupt(int number, const struct sigaction& before) {
  return number == SIGINT && before.sa_handler == SIG_IGN;
}

}  // namespace

StopSignal::StopSignal(std::chrono::milliseconds same_request) {
  const std::lock_guard<std::mutex> lock(stop_signal_mutex);
  if (stop_signal_users == 0) {
    stop_signal_came = 0;
    first_request_ms = kNever;
    same_request_ms = same_request.count();
    struct sigaction action {};
    action.sa_handler = take_note_of_stop_signal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    for (std::size_t i = 0; i < kStopSignals.size(); ++i) {
      if (::sigaction(kStopSignals[i], &action, &stop_signals_before[i]) != 0) {
        throw Error(std::string("cannot catch SIG") + ::sigabbrev_np(kStopSignals[i]) + ": " + errno_text(errno),
                    "StopSignal", "set enable_jit_checkpoint to false");
      }
      if (is_ignored_interrupt(kStopSignals[i], stop_signals_before[i])) {
        ::sigaction(kStopSignals[i], &stop_signals_before[i], nullptr);
      }
    }
  }
  ++stop_signal_users;
}

StopSignal::~StopSignal() {
  const std::lock_guard<std::mutex> lock(stop_signal_mutex);
  if (--stop_signal_users > 0) return;
  for (std::size_t i = 0; i < kStopSignals.size(); ++i) ::sigaction(kStopSignals[i], &stop_signals_before[i], nullptr);
}

int StopSignal::received() const { return stop_signal_came; }

}  // namespace lockstep
