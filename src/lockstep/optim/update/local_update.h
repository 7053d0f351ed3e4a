#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

#include "lockstep/optim/flat_optimizer.h"
#include "lockstep/optim/update/optimizer_state.h"

namespace lockstep {

/// One update, by `grad`, of all parameters that have a gradient and are whole on this rank.
class LocalUpdate {
 public:
  /// @throws Error  if a gradient is sparse, or of another shape than its parameter
  LocalUpdate(const std::vector<torch::optim::OptimizerParamGroup>& groups, OptimizerState& state);

  StepResult run(const StepOptions& options);

 private:
  struct Piece {
    StateSlot* slot;
    std::size_t group;
    at::Tensor gradient;  // in the parameter's memory order
    at::Tensor original;  // the gradient itself, if it has another order; else undefined
    bool plain;           // the kernels can walk it
  };

  void add(const at::Tensor& parameter, std::size_t group, std::size_t index);
  void zero_gradients() const;
  void update(double factor, bool zero);

  OptimizerState& state_;
  std::vector<Piece> pieces_;
};

}  // namespace lockstep
