#pragma once

namespace lockstep {

/// While one lives, SIGTERM and SIGUSR1 (which Slurm sends before a job's time is over, where it is asked to) do not
/// end the process but are taken note of, so that a training can save before it leaves. Several may live at once, as
/// where ranks are threads; the handler that stood before comes back with the last.
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
