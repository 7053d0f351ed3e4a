#pragma once

#include "lockstep/launch/plan.h"

namespace lockstep {

/// Runs a job on this node: serves or finds its store, starts the ranks, carries their output, restarts them where the
/// plan allows it, and ends everything that they started, however the job ends.
///
/// Call it once, from the main thread, while the process has no other threads: it forks, and takes over signals.
/// @return  0 if all ranks of all nodes ended well; 128 + signal if this process was told to end
/// @throws Error  if a rank failed (first, how, its last words, and what to try), or cannot be started
int run_job(const LaunchPlan& plan);

}  // namespace lockstep
