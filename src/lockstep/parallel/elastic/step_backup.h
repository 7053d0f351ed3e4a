#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep {

/// What a forward changes of a loop's state although the step is not made yet: buffers, such as the running averages of
/// batch normalisation. If a rank is lost in the step, the others make it again, from the values before it.
class StepBackup {
 public:
  /// @param tensors  of the state. Those that require gradients are changed by steps alone
  explicit StepBackup(const std::vector<at::Tensor>& tensors);

  /// A step begins.
  void take();
  /// The step is made.
  void drop() { is_taken_ = false; }
  /// The step that was begun, if it is not made, is to be made again.
  void restore();

 private:
  std::vector<at::Tensor> tensors_, copies_;
  bool is_taken_ = false;
};

}  // namespace lockstep
