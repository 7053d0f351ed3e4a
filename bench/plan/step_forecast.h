#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep {

/// A gradient, and the time when backward has put it into its bucket.
struct GradientTime {
  std::int64_t bytes = 0;
  double ready_s = 0;  ///< seconds since backward began
};

/// One rank's step without communication, as measured.
struct StepProfile {
  double forward_s = 0;
  double backward_s = 0;
  double update_s = 0;
  std::vector<GradientTime> gradients;  ///< in registration order
  /// By gradient, the unit of stage 3 that its weight belongs to; 0: none. Empty: there are no units.
  std::vector<std::size_t> units;
  /// By gradient, whether forwards read a bf16 copy of its weight, which stage 3 gathers in its place. Empty: none.
  std::vector<bool> has_copy;
  bool cores_are_busy = true;  ///< all cores compute, so ranks wait for communication's computations
};

/// One operation between ranks.
struct OperationCost {
  double seconds = 0;  ///< from its start to its end
  double cpu_s = 0;    ///< the part of it in which this rank's processor works
};

/// The cost of sending one bucket to all ranks.
struct BucketCost {
  double start_s = 0;     ///< the computing thread prepares the bucket before it leaves
  OperationCost leaving;  ///< runs while backward continues
  double middle_s = 0;    ///< the waiting thread processes the result and starts `coming`
  OperationCost coming;   ///< a second operation; its wait begins when all are started; all zero: there is none
  double finish_s = 0;    ///< the waiting thread stores the result
};

/// Gradients of one bucket (indices into StepProfile::gradients), in the order of launch, and its cost.
struct ForecastBucket {
  std::vector<std::size_t> gradients;
  BucketCost cost;
};

struct StepForecast {
  double step_s = 0;
  double communication_s = 0;  ///< seconds of all operations, one after the other
  double exposed_s = 0;        ///< how much longer the step is than without communication
};

/// Forecasts a step whose buckets are reduced while backward runs, as Reducer does it. A bucket leaves when all its
/// gradients are ready and all buckets before it have left; the last one leaves when backward ends. The ranks carry out
/// one operation at a time, in that order. After backward, its thread waits for the results in that order. Second
/// operations start as the first ones end, and finish after all of them were started.
///
/// If the cores are busy, an operation slows backward down by the share of its time in which it computes.
StepForecast forecast_step(const StepProfile& profile, const std::vector<ForecastBucket>& buckets);

/// How fast a busy core computes while the operation runs, as a fraction of its speed alone.
double rate_beside(const OperationCost& operation);

}  // namespace lockstep
