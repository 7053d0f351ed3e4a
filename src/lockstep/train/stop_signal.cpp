#include "lockstep/train/stop_signal.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

constexpr std::array<int, 2> kStopSignals{SIGTERM, SIGUSR1};

std::mutex stop_signal_mutex;
int stop_signal_users = 0;
std::array<struct sigaction, kStopSignals.size()> stop_signals_before{};
volatile std::sig_atomic_t stop_signal_came = 0;

extern "C" void take_note_of_stop_signal(int) { stop_signal_came = 1; }

}  // namespace

StopSignal::StopSignal() {
  const std::lock_guard<std::mutex> lock(stop_signal_mutex);
  if (stop_signal_users == 0) {
    stop_signal_came = 0;
    struct sigaction action {};
    action.sa_handler = take_note_of_stop_signal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    for (std::size_t i = 0; i < kStopSignals.size(); ++i) {
      if (::sigaction(kStopSignals[i], &action, &stop_signals_before[i]) != 0) {
        throw Error(std::string("cannot catch SIG") + ::sigabbrev_np(kStopSignals[i]) + ": " + errno_text(errno),
                    "StopSignal", "set enable_jit_checkpoint to false");
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

bool StopSignal::received() const { return stop_signal_came != 0; }

}  // namespace lockstep
