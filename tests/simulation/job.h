#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/simulation/groups.h"
#include "tests/simulation/simulated_store.h"

namespace lockstep::simulation {

/// What a seed chooses, beside the faults.
struct JobShape {
  int ranks = 0;
  int hosts = 0;
  int steps = 0;
  int successors = 0;  ///< that the launcher starts at most
  bool warm = false;   ///< spares wait, so successors start sooner
  Time timeout{0};     ///< of collectives
};

/// The parts that all processes of a simulated job share.
struct JobParts {
  JobParts(Simulation& its_simulation, const JobShape& its_shape);

  /// From now on, for `time`, the job may be slower.
  void disturb(Time time) { disturbed_until = std::max(disturbed_until, simulation.now() + time); }

  Simulation& simulation;
  const JobShape shape;
  Network network;
  Points points;
  SimulatedServer& server() { return *servers.back(); }
  std::vector<std::unique_ptr<SimulatedServer>> servers;  ///< by era
  Groups groups;
  std::vector<std::uint64_t> states;          ///< of an undisturbed training, by steps done
  int connections_to_fail = 0;                ///< of the next attempts to connect
  Time disturbed_until{0};                    ///< by faults so far, and by the timeouts that follow them
  std::map<std::int64_t, Time> first_update;  ///< when a member of a world first completed an update
  std::int64_t gone = 0;                      ///< processes that have ended, or begun to leave
  std::int64_t asked = 0;                     ///< processes that have asked to be let in
  struct Request {
    Time since{0};         ///< it is complete
    std::int64_t era = 0;  ///< of the store that has it
  };
  std::map<int, Request> requests;  ///< of processes that ask to join, by number
};

/// The digest of a training's state after one more step.
std::uint64_t state_after(std::uint64_t state, std::int64_t step, std::int64_t gradients);
/// What a shard of a step's samples adds to the gradients.
std::int64_t gradient_of(std::int64_t step, int shard);

constexpr int kShards = 8;

}  // namespace lockstep::simulation
