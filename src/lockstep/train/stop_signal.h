#pragma once

#include <chrono>

namespace lockstep {

/// While one lives, SIGTERM, SIGINT (Ctrl-C), SIGHUP (the terminal is closed) and the signals by which batch systems
/// warn a job before its time is over (SIGUSR1 and others: base/signals.h) are recorded instead of ending the process,
/// so that a training can save before it exits. Several may live at once, for ranks that are threads; the last one
/// restores the previous handler. A SIGINT that the process ignores stays ignored: a shell starts programs in the
/// background so. So does a SIGHUP, or a warning other than SIGUSR1, that the program handles or ignores.
///
/// Warnings that the process has held back until now (hold_warning_signals) are delivered when the first one is made,
/// and ignored once the last one has gone: the work that is left saves its result by itself.
///
/// A SIGTERM, SIGINT or SIGHUP that follows another after `same_request` or more goes to the previous handler, which by
/// default ends the process: a training that hangs never looks at the first one. One that follows sooner counts as the
/// same request: `timeout`, Slurm, systemd and terminals signal a process and also its group, or its launcher, which
/// forwards the signal.
class StopSignal {
 public:
  static constexpr std::chrono::milliseconds kSameRequest{1000};

  /// @param same_request  of the first that lives
  /// @throws Error  if the system refuses
  explicit StopSignal(std::chrono::milliseconds same_request = kSameRequest);
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// The first signal that came; 0: none.
  int received() const;
};

}  // namespace lockstep
