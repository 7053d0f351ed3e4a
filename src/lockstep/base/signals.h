#pragma once

#include <signal.h>

#include <algorithm>
#include <array>
#include <string>

namespace lockstep {

/// Signals by which batch systems warn a job of its end, as users choose them: `sbatch --signal`, `bsub -wa`, soft
/// limits, a checkpoint that is asked for. Unlike SIGTERM they leave it to the program when it ends.
constexpr std::array<int, 6> kWarningSignals{SIGUSR1, SIGUSR2, SIGXCPU, SIGALRM, SIGURG, SIGPWR};

inline bool is_warning_signal(int number) {
  return std::find(kWarningSignals.begin(), kWarningSignals.end(), number) != kWarningSignals.end();
}

inline sigset_t warning_signal_set() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int number : kWarningSignals) ::sigaddset(&set, number);
  return set;
}

/// From now on, in this thread and those that it starts, and in a program that this process becomes, warnings wait.
inline void hold_warning_signals() {
  const sigset_t warnings = warning_signal_set();
  ::pthread_sigmask(SIG_BLOCK, &warnings, nullptr);
}

/// The end of that: those that have arrived are delivered now.
inline void let_warning_signals_through() {
  const sigset_t warnings = warning_signal_set();
  ::pthread_sigmask(SIG_UNBLOCK, &warnings, nullptr);
}

/// "SIGKILL", or "signal 42" if the signal has no name.
std::string signal_name(int number);

}  // namespace lockstep
