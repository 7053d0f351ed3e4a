#include "bench/plan/stage_forecast.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "bench/plan/gathering_forecast.h"
#include "lockstep/base/error.h"
#include "tools/models/gathered_units.h"

namespace lockstep {
namespace {

constexpr std::int64_t kCallBytes = 16;  // that a rank sends before it gathers a unit

double bytes_of(const StepProfile& step) {
  double bytes = 0;
  for (const GradientTime& gradient : step.gradients) bytes += static_cast<double>(gradient.bytes);
  return std::max(1.0, bytes);
}

// Reduce-scatter and all-gather are the halves of an all-reduce.
OperationCost half_of(const OperationCost& whole) { return {whole.seconds / 2, whole.cpu_s / 2}; }

// Sending a bucket, updating this rank's share of it, and publishing its weights.
BucketCost cost_of(std::int64_t bytes, const HostProfile& profile, const ClusterShape& shape, const LinkSpeed& link,
                   int stage) {
  const OperationCost whole = all_reduce_cost(bytes, shape, link, profile.engine);
  const OperationCost half = half_of(whole);
  const double update_s = profile.step.update_s * static_cast<double>(bytes) / bytes_of(profile.step) / shape.ranks();
  BucketCost cost;
  if (stage == 0) {
    cost.leaving = whole;
    return cost;
  }
  if (shape.hosts == 1 && stage == 1) {
    cost.finish_s = update_s + half.seconds;  // the sum is made by the update, from all ranks' gradients
    return cost;
  }
  cost.leaving = half;
  if (shape.hosts == 1) {
    cost.finish_s = update_s;  // ranks share the weights, so nothing is published
    return cost;
  }
  cost.middle_s = update_s;
  cost.coming = half;
  return cost;
}

std::vector<BucketLayout> buckets_of(const StepProfile& step, int stage) {
  std::vector<GradientSize> sizes;
  for (const GradientTime& gradient : step.gradients) sizes.push_back({gradient.bytes, c10::kFloat});
  return make_buckets(sizes, stage >= 2 ? BucketCaps::of_shares() : BucketCaps::between_hosts());
}

// The sum of the parts, which were measured separately.
StepForecast parts_of_stage(const HostProfile& profile, const ClusterShape& shape, const LinkSpeed& link, int stage) {
  std::vector<ForecastBucket> buckets;
  for (BucketLayout& bucket : buckets_of(profile.step, stage)) {
    buckets.push_back({std::move(bucket.params), cost_of(bucket.bytes, profile, shape, link, stage)});
  }
  StepProfile step = profile.step;
  if (stage > 0) step.update_s = 0;  // it is in the buckets' costs
  return forecast_step(step, buckets);
}

// What gathers a unit: a message in which ranks say which one it is, and its buckets. Nothing if it has none.
OperationCost gathering_cost(const std::vector<std::int64_t>& buckets, const HostProfile& profile,
                             const ClusterShape& shape, const LinkSpeed& link) {
  if (buckets.empty()) return {};
  OperationCost cost = half_of(all_reduce_cost(kCallBytes * shape.ranks(), shape, link, profile.engine));
  for (const std::int64_t bytes : buckets) {
    const OperationCost one = half_of(all_reduce_cost(bytes, shape, link, profile.engine));
    cost.seconds += one.seconds;
    cost.cpu_s += one.cpu_s;
  }
  return cost;
}

// The parts of a step whose weights are in shards, on several hosts.
StepForecast parts_of_gathering(const HostProfile& profile, const ClusterShape& shape, const LinkSpeed& link) {
  const StepProfile& step = profile.step;
  std::vector<BucketLayout> layout = buckets_of(step, 3);
  std::vector<std::int64_t> weights;
  for (const GradientTime& gradient : step.gradients) weights.push_back(gradient.bytes);
  const GatheredUnits gathered(layout, step.units, unit_parts(weights, step.units, step.has_copy));
  const auto cost = [&](const std::vector<std::int64_t>& bytes) { return gathering_cost(bytes, profile, shape, link); };
  std::vector<ForecastUnit> units;
  const std::size_t number = gathered.order().size();
  for (std::size_t k = 0; k < number; ++k) {
    units.push_back({gathered.order()[k], cost(gathered.beside(k, k == 0 ? 0 : k - 1)),
                     cost(gathered.beside(k, std::min(k + 1, number - 1)))});
  }
  std::vector<ForecastBucket> buckets;
  for (BucketLayout& bucket : layout) {
    BucketCost gradients;
    gradients.leaving = half_of(all_reduce_cost(bucket.bytes, shape, link, profile.engine));
    buckets.push_back({std::move(bucket.params), gradients});
  }
  StepForecast forecast = forecast_gathering(step, cost(gathered.outside()), units, buckets);
  forecast.step_s += step.update_s / shape.ranks();
  return forecast;
}

}  // namespace

StepForecast forecast_stage(const HostProfile& profile, const ClusterShape& shape, const LinkSpeed& link, int stage) {
  if (stage < 0 || stage > 3) {
    throw Error(fmt::format("a step of stage {} cannot be forecast", stage), "forecast_stage", "give 0, 1, 2 or 3");
  }
  if (stage == 0) return forecast_cluster(profile, shape, link, {});
  StepForecast forecast = stage == 3 && shape.hosts > 1 ? parts_of_gathering(profile, shape, link)
                                                        : parts_of_stage(profile, shape, link, stage);
  // What the host's ranks take beyond their parts, they take in every stage.
  const StepForecast host = parts_of_stage(profile, {1, shape.ranks_per_host}, link, 0);
  const StepProfile& step = profile.step;
  const double more_s = std::max(0.0, profile.host_step_s - host.step_s);
  forecast.step_s = std::max(forecast.step_s + more_s, step.forward_s + step.backward_s);
  forecast.exposed_s =
      std::max(0.0, forecast.step_s - step.forward_s - step.backward_s - step.update_s / shape.ranks());
  return forecast;
}

}  // namespace lockstep
