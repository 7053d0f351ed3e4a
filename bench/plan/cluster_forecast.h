#pragma once

#include <map>
#include <optional>
#include <vector>

#include "bench/plan/communication_cost.h"
#include "bench/plan/step_forecast.h"
#include "lockstep/parallel/reducer/bucket_layout.h"

namespace lockstep {

/// Measurements on one host, from which steps on several hosts are forecast.
struct HostProfile {
  StepProfile step;
  EngineCosts engine;
  std::map<Compression, CompressionCosts> hooks;  ///< the hooks that may be chosen; Compression::None needs no entry
  double host_step_s = 0;                         ///< seconds of a step of all of the host's ranks together
};

/// How gradients are sent.
struct SendingPlan {
  Compression compression = Compression::None;
  BucketCaps caps = BucketCaps::between_hosts();
};

/// Forecasts a step of `shape`'s ranks, each with the measured work. On one host it is the measured step, for any plan.
/// On more hosts it is the measured step plus the increase of forecast_step's sum of the parts from one host to these;
/// never less.
StepForecast forecast_cluster(const HostProfile& profile, const ClusterShape& shape, const LinkSpeed& link,
                              const SendingPlan& plan);

/// The plan with the shortest step, for the given compression, or for all whose costs `profile` has, and for bucket
/// sizes from 0.5 to 64 MiB. Among plans within one percent of the shortest that are not slower than the default sizes,
/// it is the one with the largest buckets, which costs the ranks least. On one host, it has the default sizes.
SendingPlan best_plan(const HostProfile& profile, const ClusterShape& shape, const LinkSpeed& link,
                      std::optional<Compression> compression = {});

}  // namespace lockstep
