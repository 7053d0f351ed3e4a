#pragma once

#include <map>
#include <optional>
#include <vector>

#include "lockstep/parallel/forecast/communication_cost.h"
#include "lockstep/parallel/forecast/step_forecast.h"

namespace lockstep {

/// What was measured on one host, from which steps on several are forecast.
struct HostProfile {
  StepProfile step;
  EngineCosts engine;
  std::map<Compression, CompressionCosts> hooks;  ///< those that may be chosen; Compression::None needs no entry
  double host_step_s = 0;                         ///< of a step of all of the host's ranks together
};

/// Upper bounds of buckets, in bytes; see make_buckets.
struct BucketCaps {
  std::int64_t first = std::int64_t{1} << 20;
  std::int64_t others = std::int64_t{2} << 20;
};

/// How gradients are sent.
struct SendingPlan {
  Compression compression = Compression::None;
  BucketCaps caps;
};

/// A step of `shape`'s ranks, each with the work that was measured. One host: what was measured, whatever the plan.
/// More hosts: that, and as much more as forecast_step's sum of the parts grows from one host to these; never less.
StepForecast forecast_cluster(const HostProfile& profile, const ClusterShape& shape, const LinkSpeed& link,
                              const SendingPlan& plan);

/// Of the given compression, or of all that `profile` has costs of, and of bucket sizes from 0.5 to 64 MiB, the plan
/// with the shortest step; the largest buckets of those within one percent of it, which ask least of the ranks, and
/// that are not slower than the default ones. On one host, the default ones.
SendingPlan best_plan(const HostProfile& profile, const ClusterShape& shape, const LinkSpeed& link,
                      std::optional<Compression> compression = {});

}  // namespace lockstep
