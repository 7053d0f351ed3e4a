#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "lockstep/elastic/elastic_state.h"
#include "lockstep/parallel/fused/tensor_sample.h"

namespace lockstep {

/// What a step changes of a loop's state before it is made: buffers, such as the running averages of batch
/// normalisation, and what `save` returns. If a rank is lost in the step, the others make it again, from the values
/// before it.
class StepBackup {
 public:
  /// @param state  outlives this object. Its tensors that require gradients are changed by updates alone
  explicit StepBackup(const ElasticState& state);

  /// A step begins.
  void take();
  /// The step is made.
  void drop() { is_taken_ = false; }
  /// Whether a step that was begun, and is not made, has changed tensors that require gradients: it cannot be made
  /// again. Weights that were swapped for others, and back, have not changed.
  bool has_updated() const;
  /// The step that was begun, if it is not made, is to be made again.
  void restore();

 private:
  const ElasticState& state_;
  std::vector<at::Tensor> tensors_, copies_;
  std::vector<at::Tensor> weights_;
  std::vector<WeightSample> samples_;  // of weights
  std::string text_;
  bool is_taken_ = false;
};

}  // namespace lockstep
