#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/failure_cause.h"
#include "lockstep/detail/net/membership.h"

namespace lockstep {

struct RanksOptions {
  std::chrono::milliseconds timeout{20'000};  ///< of the group's collectives
  /// For all ranks to start and to connect, which takes long on a busy machine, however short `timeout` is.
  std::chrono::milliseconds join_timeout{20'000};
  std::chrono::milliseconds deadline{180'000};          ///< of everything: ranks that still run then are a failure
  std::chrono::milliseconds heartbeat_timeout{30'000};  ///< of processes: a rank that is silent for longer is lost
  /// `Membership::look_interval`: short, because tests wait for what ranks find out by looking.
  std::chrono::milliseconds look_interval{5};
  bool mpi = false;  ///< of processes: each has a place in one job of mpirun
  /// Of processes: called first in each, where its variables are set already. May change them, or enter another host.
  std::function<void(int rank)> prepare;
};

/// How a rank ended.
struct RankOutcome {
  bool failed = false;                ///< threw, was killed, or a test expectation failed in it
  bool timed_out = false;             ///< threw a TimeoutError
  int signal = 0;                     ///< that killed the process
  std::optional<FailureCause> cause;  ///< of the exception
  std::string text;                   ///< of the exception
};

using RankBody = std::function<void(const Membership&)>;

/// Runs `body` on `world_size` ranks, as threads of this process with a store in memory, and returns how they ended, by
/// rank. A rank that throws is on the store's list of lost ranks. Ends the process where ranks run past the deadline.
std::vector<RankOutcome> ranks_as_threads(int world_size, const RankBody& body, const RanksOptions& options = {});

/// Runs `body` on `world_size` ranks, each a process, which meet by `rendezvous` over a store on a Unix socket; this
/// process serves it. A rank may kill or stop itself: stopped ones are killed once the others have ended.
std::vector<RankOutcome> ranks_as_processes(int world_size, const RankBody& body, const RanksOptions& options = {});

/// The same for bodies that must not fail: throws the text of the first rank that did, with its rank.
void run_ranks_as_threads(int world_size, const RankBody& body, const RanksOptions& options = {});
void run_ranks_as_processes(int world_size, const RankBody& body, const RanksOptions& options = {});

}  // namespace lockstep
