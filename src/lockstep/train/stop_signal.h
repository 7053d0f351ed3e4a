#pragma once

namespace lockstep {

/// While one lives, SIGTERM and SIGUSR1 (which Slurm sends before a job's time is over, if asked to) are recorded
/// instead of ending the process, so that a training can save before it exits. Several may live at once, for ranks that
/// are threads; the last one restores the previous handler.
class StopSignal {
 public:
  /// @throws Error  if the system refuses
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  bool received() const;
};

}  // namespace lockstep
