#include "lockstep/replicas/parallel_inference.h"

#include <torch/csrc/jit/api/module.h>
#include <torch/nn/module.h>

namespace lockstep::detail {

// A module's `train` also sets all modules inside it.
EvaluationMode::EvaluationMode(torch::nn::Module& module) {
  for (const auto& part : module.modules()) {
    put_back_.push_back([plain = part.get(), mode = part->is_training()] {
      if (plain->is_training() != mode) plain->train(mode);
    });
  }
  module.eval();
}

EvaluationMode::EvaluationMode(torch::jit::Module& module) {
  for (torch::jit::Module part : module.modules()) {
    if (!part.hasattr("training")) continue;  // frozen
    put_back_.push_back([part, mode = part.is_training()]() mutable { part.setattr("training", mode); });
    part.setattr("training", false);
  }
}

EvaluationMode::~EvaluationMode() {
  for (const auto& put_back : put_back_) put_back();
}

}  // namespace lockstep::detail
