#include "bench/plan/step_forecast.h"

#include <algorithm>
#include <utility>

namespace lockstep {
namespace {

// However busy communication is, the system gives computing threads a share of the core.
constexpr double kLargestSlowdown = 0.75;

// The computing thread's work when each bucket leaves: seconds of backward and of preparing the buckets.
std::vector<double> work_at_launch(const StepProfile& profile, const std::vector<ForecastBucket>& buckets) {
  std::vector<double> work;
  double ready_s = 0;
  double prepared_s = 0;
  for (std::size_t k = 0; k < buckets.size(); ++k) {
    for (const std::size_t i : buckets[k].gradients) ready_s = std::max(ready_s, profile.gradients[i].ready_s);
    if (k + 1 == buckets.size()) ready_s = std::max(ready_s, profile.backward_s);
    prepared_s += buckets[k].cost.start_s;
    work.push_back(ready_s + prepared_s);
  }
  return work;
}

// Simulates backward and the operations that overlap with it.
class Overlap {
 public:
  Overlap(const StepProfile& profile, const std::vector<ForecastBucket>& buckets)
      : profile_(profile), buckets_(buckets), work_(work_at_launch(profile, buckets)), ends_s_(buckets.size()) {}

  void run() {
    while (launched_ < buckets_.size()) {
      const double rest_s = std::max(0.0, work_[launched_] - done_s_) / rate();
      if (running_ && operation_end_s_ <= now_s_ + rest_s) {
        advance(operation_end_s_);
        end_operation();
      } else {
        advance(now_s_ + rest_s);
        ++launched_;
        if (!running_) begin_operation();
      }
    }
    backward_end_s_ = now_s_;
    while (running_) {
      now_s_ = operation_end_s_;
      end_operation();
    }
  }

  double backward_end_s() const { return backward_end_s_; }
  double end_s(std::size_t bucket) const { return ends_s_[bucket]; }

 private:
  double rate() const {
    if (!running_ || !profile_.cores_are_busy) return 1;
    return rate_beside(buckets_[next_].cost.leaving);
  }
  void advance(double to_s) {
    done_s_ += (to_s - now_s_) * rate();
    now_s_ = to_s;
  }
  void begin_operation() {
    running_ = true;
    operation_end_s_ = now_s_ + buckets_[next_].cost.leaving.seconds;
  }
  void end_operation() {
    ends_s_[next_++] = now_s_;
    running_ = false;
    if (next_ < launched_) begin_operation();
  }

  const StepProfile& profile_;
  const std::vector<ForecastBucket>& buckets_;
  const std::vector<double> work_;
  std::vector<double> ends_s_;
  double now_s_ = 0;  // seconds since backward began
  double done_s_ = 0;
  std::size_t launched_ = 0;
  std::size_t next_ = 0;  // the bucket of the present operation, or of the next
  bool running_ = false;
  double operation_end_s_ = 0;
  double backward_end_s_ = 0;
};

}  // namespace

double rate_beside(const OperationCost& operation) {
  return 1 - std::min(kLargestSlowdown, operation.seconds > 0 ? operation.cpu_s / operation.seconds : 0);
}

StepForecast forecast_step(const StepProfile& profile, const std::vector<ForecastBucket>& buckets) {
  Overlap overlap(profile, buckets);
  overlap.run();
  StepForecast forecast;
  double now_s = std::max(overlap.backward_end_s(), profile.backward_s);
  // Second operations queue behind the first ones of all buckets.
  double free_s = buckets.empty() ? now_s : overlap.end_s(buckets.size() - 1);
  std::vector<std::pair<double, double>> comes;  // end of a second operation, and seconds of the work after it
  double beside_s = 0;                           // the processor's work during these operations
  for (std::size_t k = 0; k < buckets.size(); ++k) {
    const BucketCost& cost = buckets[k].cost;
    forecast.communication_s += cost.leaving.seconds + cost.coming.seconds;
    now_s = std::max(now_s, overlap.end_s(k)) + cost.middle_s;
    if (cost.coming.seconds <= 0) {
      now_s += cost.finish_s;
      continue;
    }
    free_s = std::max(now_s, free_s) + cost.coming.seconds;
    comes.push_back({free_s, cost.finish_s});
    beside_s += cost.finish_s + (profile.cores_are_busy ? cost.coming.cpu_s : 0);
  }
  const double processor_end_s = now_s + beside_s;
  for (const auto& [end_s, finish_s] : comes) now_s = std::max(now_s, end_s) + finish_s;
  now_s = std::max(now_s, processor_end_s);
  forecast.exposed_s = now_s - profile.backward_s;
  forecast.step_s = profile.forward_s + now_s + profile.update_s;
  return forecast;
}

}  // namespace lockstep
