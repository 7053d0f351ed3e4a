#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep {

/// A gradient, and when backward has it ready in its bucket.
struct GradientTime {
  std::int64_t bytes = 0;
  double ready_s = 0;  ///< since backward began
};

/// One rank's step without communication, as measured.
struct StepProfile {
  double forward_s = 0;
  double backward_s = 0;
  double update_s = 0;
  std::vector<GradientTime> gradients;  ///< in registration order
  bool cores_are_busy = true;           ///< ranks compute on all cores: what communication computes, they wait for
};

/// One operation between ranks.
struct OperationCost {
  double seconds = 0;  ///< from its start to its end
  double cpu_s = 0;    ///< of it, this rank's processor works
};

/// What it takes to bring one bucket to all ranks.
struct BucketCost {
  double start_s = 0;     ///< the computing thread prepares it, before it leaves
  OperationCost leaving;  ///< beside backward
  double middle_s = 0;    ///< the waiting thread works on what came, and starts
  OperationCost coming;   ///< a second operation, which it waits for when it has started all; all zero: there is none
  double finish_s = 0;    ///< the waiting thread puts the result into its place
};

/// Gradients of one bucket (indices into StepProfile::gradients), in the order of launch, and its cost.
struct ForecastBucket {
  std::vector<std::size_t> gradients;
  BucketCost cost;
};

struct StepForecast {
  double step_s = 0;
  double communication_s = 0;  ///< of all operations, one after the other
  double exposed_s = 0;        ///< the step is longer than it would be without communication
};

/// What a step takes whose buckets are reduced while backward runs, as Reducer does it: a bucket leaves when all its
/// gradients are ready and those before it have left, the last one when backward ends; the ranks carry out one
/// operation at a time, in that order; and backward's thread waits for the results in that order, after its end. Second
/// operations are started as the first ones end, and finished when all are started.
///
/// Where the cores are busy, an operation slows backward down by the share of its time that it computes.
StepForecast forecast_step(const StepProfile& profile, const std::vector<ForecastBucket>& buckets);

}  // namespace lockstep
