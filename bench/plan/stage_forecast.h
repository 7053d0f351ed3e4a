#pragma once

#include "bench/plan/cluster_forecast.h"

namespace lockstep {

/// Forecasts a step of `shape`'s ranks in a stage, as ZeRO counts: 0, every rank makes the whole update
/// (`forecast_cluster` with default buckets); 1, fused steps, in which each rank updates a share; 2, gradients are
/// shared out too, in buckets of 2 MiB; 3, weights too, which are gathered by unit (`profile.step.units`).
///
/// From stage 1 on, hosts send each bucket's gradients to their owners while backward runs. After it each rank updates
/// its share, and the weights go to the other hosts; in stage 3 they stay, and are gathered in the next forward and
/// again in its backward. Gradients out and weights in are one all-reduce. On one host nothing is sent: the update
/// reads the gradients of all ranks where they lie (stage 1), or sums that were made in backward (stages 2 and 3, which
/// are the same there, because the host has one copy of the weights). As in `forecast_cluster`, the forecast is the
/// measured step of one host plus what the parts say beyond it, and never shorter than forward and backward.
/// @throws Error  if `stage` is not 0, 1, 2 or 3
StepForecast forecast_stage(const HostProfile& profile, const ClusterShape& shape, const LinkSpeed& link, int stage);

}  // namespace lockstep
