#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// The kind of a rank of `spawn`. Processes cannot harm each other, and each has its own LibTorch threads, generators
/// and allocator. Threads start at once, and see the caller's variables.
enum class RanksAs { Processes, Threads };

struct SpawnOptions {
  std::string engine;                                            ///< empty: the fastest that connects the ranks
  std::chrono::milliseconds timeout = std::chrono::minutes(30);  ///< bound for each collective
  RanksAs ranks_as = RanksAs::Processes;                         ///< only `spawn` uses this
};

/// The function that each rank runs; its argument is the communicator that connects all ranks.
using RankFunction = std::function<void(const std::shared_ptr<Communicator>&)>;

/// Runs `body` on `world_size` ranks of this host, as processes or as threads, and returns when all have ended.
/// @throws as spawn_processes and spawn_threads
void spawn(int world_size, const RankFunction& body, const SpawnOptions& options = {});

/// Runs `body` on `world_size` ranks, each a process forked from this one. A rank starts with a copy of the caller's
/// memory, and its changes stay its own. To bring results back, use files, a store, or `spawn_threads`. The ranks share
/// the cores: each sets the threads of LibTorch and OpenBLAS to its part. A child ends with `_exit`.
///
/// Call it before this process starts threads of its own: a fork copies only the calling thread, and locks that other
/// threads held stay locked in the child. Threads of OpenMP and OpenBLAS that only wait for work are ended first.
///
/// @throws Error  with the number of the first rank that failed and its error, or the signal that killed it; ranks that
/// still run 10 s after that are killed
/// @throws TimeoutError  if that rank's error was one
/// @throws Error  if `world_size` is not positive, or this process runs other threads
void spawn_processes(int world_size, const RankFunction& body, const SpawnOptions& options = {});

/// Runs `body` on `world_size` ranks, each a thread of this process with a communicator that connects them, and returns
/// when all have ended. The threads share the cores: each sets LibTorch's intra-op threads to its part, but to no more
/// than OMP_NUM_THREADS. OpenBLAS with several threads would compute one rank's product at a time, so the whole process
/// uses it with one thread per caller meanwhile.
///
/// A thread that a rank starts itself does not belong to the rank: samplers that take their share from the default
/// group are made in the rank's own thread, or are given `num_replicas` and `rank`.
///
/// @throws whatever the first rank that failed threw; the group is then aborted, so that the other ranks end too
/// @throws Error  if `world_size` is not positive or the engine cannot connect threads
void spawn_threads(int world_size, const RankFunction& body, const SpawnOptions& options = {});

}  // namespace lockstep
