#include "bench/plan/gathering_forecast.h"

#include <algorithm>
#include <cstddef>

namespace lockstep {
namespace {

// Operations that follow each other, and the computing thread that they slow down.
class Operations {
 public:
  explicit Operations(bool cores_are_busy) : cores_are_busy_(cores_are_busy) {}

  // @return  when it ends, if it may begin at `at_s`
  double add(double at_s, const OperationCost& cost) {
    const double begin_s = std::max(at_s, end_s());
    operations_.push_back({begin_s, begin_s + cost.seconds, cores_are_busy_ ? rate_beside(cost) : 1});
    return end_s();
  }
  // @return  when this much work is done, if it begins at `at_s`
  double compute(double at_s, double work_s) const {
    double now_s = at_s;
    for (const Operation& operation : operations_) {
      if (operation.end_s <= now_s) continue;
      if (operation.begin_s > now_s) {
        const double alone_s = std::min(work_s, operation.begin_s - now_s);
        now_s += alone_s;
        work_s -= alone_s;
      }
      if (work_s <= 0) return now_s;
      const double beside_s = std::min(work_s / operation.rate, operation.end_s - now_s);
      now_s += beside_s;
      work_s -= beside_s * operation.rate;
    }
    return now_s + std::max(0.0, work_s);
  }
  double end_s() const { return operations_.empty() ? 0 : operations_.back().end_s; }
  double seconds() const {
    double sum = 0;
    for (const Operation& operation : operations_) sum += operation.end_s - operation.begin_s;
    return sum;
  }

 private:
  struct Operation {
    double begin_s, end_s;
    double rate;  // of the computing thread meanwhile
  };

  std::vector<Operation> operations_;
  const bool cores_are_busy_;
};

// Work of backward after which a unit, or what a bucket holds, is done.
struct BackwardTimes {
  std::vector<double> units_s;  // in the order of forward
  std::vector<double> buckets_s;
};

BackwardTimes backward_times(const StepProfile& profile, const std::vector<ForecastUnit>& units,
                             const std::vector<ForecastBucket>& buckets) {
  BackwardTimes times;
  times.units_s.resize(units.size());
  double done_s = 0;
  for (std::size_t k = units.size(); k-- > 0;) {
    for (std::size_t i = 0; i < profile.gradients.size(); ++i) {
      if (profile.units[i] == units[k].number) done_s = std::max(done_s, profile.gradients[i].ready_s);
    }
    times.units_s[k] = std::min(done_s, profile.backward_s);
  }
  double ready_s = 0;
  for (const ForecastBucket& bucket : buckets) {
    for (const std::size_t i : bucket.gradients) ready_s = std::max(ready_s, profile.gradients[i].ready_s);
    times.buckets_s.push_back(std::min(ready_s, profile.backward_s));
  }
  if (!buckets.empty()) times.buckets_s.back() = profile.backward_s;
  return times;
}

class GatheredStep {
 public:
  GatheredStep(const StepProfile& profile, const std::vector<ForecastUnit>& units,
               const std::vector<ForecastBucket>& buckets)
      : profile_(profile),
        units_(units),
        buckets_(buckets),
        times_(backward_times(profile, units, buckets)),
        operations_(profile.cores_are_busy),
        here_s_(units.size()) {}

  StepForecast run(const OperationCost& outside) {
    now_s_ = operations_.add(0, outside);
    run_forward();
    run_backward();
    StepForecast forecast;
    forecast.step_s = std::max(now_s_, operations_.end_s());
    forecast.communication_s = operations_.seconds();
    return forecast;
  }

 private:
  // The unit's part of backward: from the end of the unit after it.
  double share_of(std::size_t k) const {
    return times_.units_s[k] - (k + 1 < units_.size() ? times_.units_s[k + 1] : 0);
  }

  void run_forward() {
    const double scale = profile_.backward_s > 0 ? profile_.forward_s / profile_.backward_s : 0;
    double in_units_s = 0;
    for (std::size_t k = 0; k < units_.size(); ++k) in_units_s += share_of(k) * scale;
    now_s_ =
        operations_.compute(now_s_, std::max(0.0, profile_.forward_s - in_units_s));  // what is before the first unit
    for (std::size_t k = 0; k < units_.size(); ++k) {
      if (k == 0) here_s_[0] = operations_.add(now_s_, units_[0].in_forward);
      if (k + 1 < units_.size()) here_s_[k + 1] = operations_.add(now_s_, units_[k + 1].in_forward);
      now_s_ = operations_.compute(std::max(now_s_, here_s_[k]), share_of(k) * scale);
    }
  }

  void run_backward() {
    for (std::size_t k = units_.size(); k-- > 0;) {
      // The last two units are here from forward.
      if (k > 0 && k + 1 < units_.size()) here_s_[k - 1] = operations_.add(now_s_, units_[k - 1].in_backward);
      now_s_ = std::max(now_s_, here_s_[k]);
      compute_until(times_.units_s[k]);
    }
    compute_until(profile_.backward_s);
  }

  // Buckets leave on the way.
  void compute_until(double work_s) {
    while (sent_ < buckets_.size() && times_.buckets_s[sent_] <= work_s) {
      compute_to(times_.buckets_s[sent_]);
      operations_.add(now_s_, buckets_[sent_++].cost.leaving);
    }
    compute_to(work_s);
  }
  void compute_to(double work_s) {
    now_s_ = operations_.compute(now_s_, work_s - done_s_);
    done_s_ = work_s;
  }

  const StepProfile& profile_;
  const std::vector<ForecastUnit>& units_;
  const std::vector<ForecastBucket>& buckets_;
  const BackwardTimes times_;
  Operations operations_;
  std::vector<double> here_s_;  // by unit
  double now_s_ = 0;
  double done_s_ = 0;  // of backward's work
  std::size_t sent_ = 0;
};

}  // namespace

StepForecast forecast_gathering(const StepProfile& profile, const OperationCost& outside,
                                const std::vector<ForecastUnit>& units, const std::vector<ForecastBucket>& buckets) {
  return GatheredStep(profile, units, buckets).run(outside);
}

}  // namespace lockstep
