#pragma once

#include <chrono>

namespace lockstep {

/// While one lives, SIGTERM, SIGINT (Ctrl-C) and SIGUSR1 (which Slurm sends before a job's time is over, if asked to)
/// are recorded instead of ending the process, so that a training can save before it exits. Several may live at once,
/// for ranks that are threads; the last one restores the previous handler. A SIGINT that the process ignores stays
/// ignored: a shell starts programs in the background so.
///
/// A SIGTERM or SIGINT that follows another after `same_request` or more goes to the previous handler, which by default
/// ends the process: a training that hangs never looks at the first one. One that follows sooner counts as the same
/// request: `timeout`, Slurm, systemd and terminals signal a process and also its group, or its launcher, which
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

  /// SIGTERM after it or SIGUSR1, SIGINT if that came first; 0: none came.
  int received() const;
};

}  // namespace lockstep
