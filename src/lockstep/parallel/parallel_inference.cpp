#include "lockstep/parallel/parallel_inference.h"

#include <torch/nn/module.h>

namespace lockstep::detail {

EvaluationMode::EvaluationMode(torch::nn::Module& module) {
  for (const auto& part : module.modules()) modes_.emplace_back(part.get(), part->is_training());
  module.eval();
}

EvaluationMode::~EvaluationMode() {
  // From the outermost in: `train` sets all modules inside as well.
  for (const auto& [part, was_training] : modes_) {
    if (part->is_training() != was_training) part->train(was_training);
  }
}

}  // namespace lockstep::detail
