#include "lockstep/train/stop_signal.h"

#include <cerrno>
#include <csignal>
#include <mutex>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

std::mutex stop_signal_mutex;
int stop_signal_users = 0;
struct sigaction stop_signal_before {};
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
    if (::sigaction(SIGTERM, &action, &stop_signal_before) != 0) {
      throw Error("cannot catch SIGTERM: " + errno_text(errno), "StopSignal", "set enable_jit_checkpoint to false");
    }
  }
  ++stop_signal_users;
}

StopSignal::~StopSignal() {
  const std::lock_guard<std::mutex> lock(stop_signal_mutex);
  if (--stop_signal_users == 0) ::sigaction(SIGTERM, &stop_signal_before, nullptr);
}

bool StopSignal::received() const { return stop_signal_came != 0; }

}  // namespace lockstep
