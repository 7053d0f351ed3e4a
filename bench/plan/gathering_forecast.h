#pragma once

#include <vector>

#include "bench/plan/step_forecast.h"
#include "tools/models/gathered_units.h"

namespace lockstep {

/// A unit of stage 3 in a step, in the order of forward. What is gathered is left out of the cost if it is there
/// already: with the unit before it in forward, with the one after it in backward.
struct ForecastUnit {
  std::size_t number = 0;     ///< in StepProfile::units
  OperationCost in_forward;   ///< gathering it
  OperationCost in_backward;  ///< and again
};

/// Forecasts forward and backward of a step whose weights are gathered by unit. Each unit is gathered while the one
/// before it computes; what is outside of units is gathered first, and stays. Backward begins with the last two units.
/// The buckets' gradients leave while backward runs (BucketCost::leaving). The ranks carry out one operation at a time.
/// Forward is taken to spend its time on units as backward does, whose gradients say when each was done.
///
/// If the cores are busy, an operation slows computing down by the share of its time in which it computes.
/// @return  `step_s` from the start of forward until the last gradient has left; `exposed_s` is not set
StepForecast forecast_gathering(const StepProfile& profile, const OperationCost& outside,
                                const std::vector<ForecastUnit>& units, const std::vector<ForecastBucket>& buckets);

}  // namespace lockstep
