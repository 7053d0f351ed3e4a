#pragma once

#include <memory>

#include "lockstep/comm/communicator.h"
#include "lockstep/train/loop/gradient_engine.h"
#include "lockstep/train/trainable_model.h"
#include "lockstep/train/training_arguments.h"

namespace lockstep {

/// The engine of ranks that average their gradients, and share the update, gradients or weights as the arguments say.
/// Collective.
std::unique_ptr<GradientEngine> make_ddp_engine(const TrainingArguments& args,
                                                const std::shared_ptr<TrainableModel>& model,
                                                const std::shared_ptr<Communicator>& group);

}  // namespace lockstep
