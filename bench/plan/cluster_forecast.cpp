#include "bench/plan/cluster_forecast.h"

#include <algorithm>

namespace lockstep {
namespace {

constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;
constexpr double kGoodEnough = 1.01;

std::vector<SendingPlan> plans_of(Compression compression) {
  std::vector<SendingPlan> plans;
  for (std::int64_t cap = kMebibyte / 2; cap <= 64 * kMebibyte; cap *= 2) {
    plans.push_back({compression, {std::min(cap, kMebibyte), cap}});
  }
  return plans;
}

// The forecast from the parts, which were measured separately.
StepForecast forecast_of_parts(const HostProfile& profile, const ClusterShape& shape, const LinkSpeed& link,
                               const SendingPlan& plan) {
  std::vector<GradientSize> sizes;
  for (const GradientTime& gradient : profile.step.gradients) sizes.push_back({gradient.bytes, c10::kFloat});
  const auto hook = profile.hooks.find(plan.compression);
  const CompressionCosts costs = hook == profile.hooks.end() ? CompressionCosts{} : hook->second;
  std::vector<ForecastBucket> buckets;
  for (BucketLayout& bucket : make_buckets(sizes, plan.caps)) {
    buckets.push_back(
        {std::move(bucket.params), bucket_cost(bucket.bytes, plan.compression, costs, shape, link, profile.engine)});
  }
  return forecast_step(profile.step, buckets);
}

}  // namespace

StepForecast forecast_cluster(const HostProfile& profile, const ClusterShape& shape, const LinkSpeed& link,
                              const SendingPlan& plan) {
  const StepForecast host = forecast_of_parts(profile, {1, shape.ranks_per_host}, link, {});
  StepForecast forecast = shape.hosts == 1 ? host : forecast_of_parts(profile, shape, link, plan);
  // The time that the host's ranks need beyond their parts is also needed on several hosts.
  forecast.step_s = profile.host_step_s + std::max(0.0, forecast.step_s - host.step_s);
  const StepProfile& step = profile.step;
  forecast.exposed_s = std::max(0.0, forecast.step_s - step.forward_s - step.backward_s - step.update_s);
  return forecast;
}

SendingPlan best_plan(const HostProfile& profile, const ClusterShape& shape, const LinkSpeed& link,
                      std::optional<Compression> compression) {
  if (shape.hosts == 1) return {compression.value_or(Compression::None), BucketCaps::between_hosts()};
  std::vector<SendingPlan> plans = plans_of(compression.value_or(Compression::None));
  if (!compression) {
    for (const auto& [other, costs] : profile.hooks) {
      const auto more = plans_of(other);
      plans.insert(plans.end(), more.begin(), more.end());
    }
  }
  const auto seconds = [&](const SendingPlan& plan) { return forecast_cluster(profile, shape, link, plan).step_s; };
  double shortest_s = seconds(plans.front());
  for (const SendingPlan& plan : plans) shortest_s = std::min(shortest_s, seconds(plan));
  const double default_s = seconds({compression.value_or(Compression::None), BucketCaps::between_hosts()});
  const double good_enough_s = std::min(shortest_s * kGoodEnough, default_s);
  // Tries no compression first, because it changes no gradient.
  SendingPlan best = plans.front();
  bool found = false;
  for (const SendingPlan& plan : plans) {
    if (seconds(plan) > good_enough_s) continue;
    if (found && plan.compression != best.compression) break;
    best = plan;
    found = true;
  }
  return best;
}

}  // namespace lockstep
