#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/plan/cluster_forecast.h"

namespace lockstep {

/// The measurements of `lockstep plan` on this host.
struct PlanQuestion {
  std::string model;
  std::int64_t batch = 1;
  std::int64_t sequence_length = 0;
  int ranks_per_host = 1;
  int threads = 1;  ///< of each rank
  int steps = 10;
  bool bf16 = false;  ///< under autocast
};

/// The arguments of `lockstep-plan-worker` that measure a step of `question` in parts.
std::vector<std::string> step_arguments(const PlanQuestion& question);

/// Measures how much processor time Gloo needs on this host, by all-reduces of two ranks and of several over loopback.
/// @throws Error  as results_of
EngineCosts measure_engine_costs();

/// @param measured  the output of `lockstep-plan-worker` for step_arguments
HostProfile host_profile_of(const nlohmann::ordered_json& measured, const EngineCosts& engine);

/// Measures all parts on this host. @throws Error  as results_of
HostProfile measure_host(const PlanQuestion& question);

}  // namespace lockstep
