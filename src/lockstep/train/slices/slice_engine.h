#pragma once

#include <memory>

#include "lockstep/train/loop/gradient_engine.h"

namespace lockstep {

/// The engine of slices: the update's micro-batches are its slices, whichever ranks compute them.
/// @param group  null: one process
/// @throws UsageError  if the model's forward or loss depends on which samples other ranks have
std::unique_ptr<GradientEngine> make_slice_engine(const TrainingArguments& args,
                                                  const std::shared_ptr<TrainableModel>& model,
                                                  const std::shared_ptr<Communicator>& group, bool are_level);

}  // namespace lockstep
