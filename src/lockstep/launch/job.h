#pragma once

#include "lockstep/launch/plan.h"

namespace lockstep {

/// Runs a job on this node: serves or finds its store, starts the ranks, carries their output, restarts them if the
/// plan allows it, and ends every process that they started, however the job ends.
///
/// Call it once, from the main thread, while the process has no other threads: it forks, and takes over signals.
/// @return  0 if all ranks of all nodes succeeded; 128 + signal if a signal ended this process, or if all ranks
///          stopped in order because one of them got a signal, or they were warned of the end of the job's time
/// @throws Error  if a rank failed (which failed first, how, its last output, and what to try), or cannot be started
int run_job(const LaunchPlan& plan);

}  // namespace lockstep
