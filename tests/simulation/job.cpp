#include "tests/simulation/job.h"

namespace lockstep::simulation {

std::int64_t gradient_of(std::int64_t step, int shard) {
  return static_cast<std::int64_t>(Random(static_cast<std::uint64_t>(step * kShards + shard)).next() >> 8);
}

std::uint64_t state_after(std::uint64_t state, std::int64_t step, std::int64_t gradients) {
  return Random(state ^ static_cast<std::uint64_t>(step * 31 + gradients)).next();
}

JobParts::JobParts(Simulation& its_simulation, const JobShape& its_shape)
    : simulation(its_simulation), shape(its_shape), network(simulation), groups(simulation, network, points) {
  servers.push_back(std::make_unique<SimulatedServer>(simulation, network, 0, 0));
  states.push_back(1);
  for (std::int64_t step = 0; step < shape.steps; ++step) {
    std::int64_t gradients = 0;
    for (int shard = 0; shard < kShards; ++shard) gradients += gradient_of(step, shard);
    states.push_back(state_after(states.back(), step, gradients));
  }
}

}  // namespace lockstep::simulation
