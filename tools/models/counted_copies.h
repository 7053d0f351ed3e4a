// The bf16 copies of weights that a model's forward would read from a fused update.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <unordered_map>
#include <vector>

#include "lockstep/tensor/compute_copy.h"

namespace lockstep {

/// Notes of which parameters forwards ask copies, and hands out such copies from `serve` on, as a fused update lays
/// them out.
class CountedCopies final : public ComputeCopySource {
 public:
  /// @param parameters  outlive this object
  explicit CountedCopies(const std::vector<at::Tensor>& parameters);
  at::Tensor current_copy(const at::Tensor& parameter) override;
  void serve();
  /// By parameter, whether a forward has asked for its copy.
  const std::vector<bool>& asked() const { return asked_; }

 private:
  const std::vector<at::Tensor>& parameters_;
  std::unordered_map<const c10::TensorImpl*, std::size_t> indices_;
  std::vector<bool> asked_;
  std::vector<at::Tensor> copies_;  // undefined before `serve`
  std::optional<ComputeCopyOffer> offer_;
};

}  // namespace lockstep
