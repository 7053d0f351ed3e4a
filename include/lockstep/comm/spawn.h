#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// What a rank of `spawn` is. Processes cannot harm each other and each has LibTorch's threads, generators and
/// allocator for itself; threads start at once, and see the caller's variables.
enum class RanksAs { Processes, Threads };

struct SpawnOptions {
  std::string engine;                                            ///< empty: the fastest that connects the ranks
  std::chrono::milliseconds timeout = std::chrono::minutes(30);  ///< of each collective
  RanksAs ranks_as = RanksAs::Processes;                         ///< `spawn` alone looks at this
};

/// What a rank runs: it gets the communicator that connects all of them.
using RankFunction = std::function<void(const std::shared_ptr<Communicator>&)>;

/// Runs `body` on `world_size` ranks of this host, as processes or as threads, and returns when all have ended.
/// @throws as spawn_processes and spawn_threads
void spawn(int world_size, const RankFunction& body, const SpawnOptions& options = {});

/// Runs `body` on `world_size` ranks, each a process forked from this one: it begins with a copy of the caller's
/// memory, and what it changes is its own. Bring results back through files, a store or a rank that is the caller's.
/// The cores are shared: each sets the threads of LibTorch and OpenBLAS to its part. A child ends with `_exit`.
///
/// To be called before this process starts threads of its own: a fork copies the calling thread alone, and whatever
/// the others held or did is stuck in the child. Threads of OpenMP and OpenBLAS that only wait for work are ended
/// first.
///
/// @throws Error         with the text of the first rank that failed, and its rank; or that it was killed, by which
/// signal.
///                       Ranks that have not ended 10 s after that are killed
/// @throws TimeoutError  where that rank's error was one
/// @throws Error         if `world_size` is not positive, or other threads run in this process
void spawn_processes(int world_size, const RankFunction& body, const SpawnOptions& options = {});

/// Runs `body` on `world_size` ranks, each a thread of this process with a communicator that connects them, and returns
/// when all have ended. The threads share the cores: each sets LibTorch's intra-op threads to its part, but not to more
/// than OMP_NUM_THREADS. OpenBLAS with threads of its own would compute one rank's product at a time: meanwhile it uses
/// one thread for each, in all of the process.
///
/// @throws whatever the first rank to fail threw; the group is aborted then, so the others end too
/// @throws Error  if `world_size` is not positive or the engine cannot connect threads
void spawn_threads(int world_size, const RankFunction& body, const SpawnOptions& options = {});

}  // namespace lockstep
