#pragma once

#include <memory>

#include "lockstep/detail/train/mixed_precision.h"
#include "lockstep/train/trainable_model.h"

namespace lockstep {

/// A model whose forward runs `model` in `precision` and returns fp32, in training and evaluation, on every replica;
/// `model` itself if the precision is "no". Losses are computed outside, in fp32.
/// @throws Error  if the model's device does not support the precision
std::shared_ptr<TrainableModel> with_precision(std::shared_ptr<TrainableModel> model, const MixedPrecision& precision);

}  // namespace lockstep
