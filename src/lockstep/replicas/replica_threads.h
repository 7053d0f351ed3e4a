#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "lockstep/base/processor/compute_threads.h"
#include "lockstep/replicas/replica_device.h"
#include "lockstep/replicas/step_trace.h"
#include "lockstep/replicas/worker_threads.h"

namespace lockstep {

/// Prepares a new thread that will compute a replica.
void start_replica_thread(const ReplicaDevice& device, const ComputeShare& share);

/// Runs `work(i)` for i < count on replica i's thread with the caller's thread-local state (grad mode, inference mode,
/// autocast, CUDA streams), the replica's device, and its share of the threads.
/// @param in_turn  in the calling thread, one replica after the other
/// @param action  names the spans in `trace`, which may be null, and the action in errors
/// @throws the exception of the first replica that failed, after all have ended
void run_on_replicas(WorkerThreads& team, const std::vector<ReplicaDevice>& devices, const ComputeShare& share,
                     StepTrace* trace, std::size_t count, const char* action,
                     const std::function<void(std::size_t)>& work, bool in_turn = false);

}  // namespace lockstep
