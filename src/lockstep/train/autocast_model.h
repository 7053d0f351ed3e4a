#pragma once

#include <memory>

#include "lockstep/train/mixed_precision.h"
#include "lockstep/train/trainable_model.h"

namespace lockstep {

/// `model`, whose forward runs in `precision` and gives fp32, in training and evaluation, on every replica. `model`
/// itself where that is "no". Losses are computed outside, in fp32.
/// @throws Error  if the model's device cannot compute so
std::shared_ptr<TrainableModel> with_precision(std::shared_ptr<TrainableModel> model, const MixedPrecision& precision);

}  // namespace lockstep
