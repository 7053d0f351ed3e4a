#include "lockstep/elastic/step_backup.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>

#include <cstddef>
#include <utility>

namespace lockstep {

StepBackup::StepBackup(const ElasticState& state) : state_(state) {
  for (const at::Tensor& each : state.tensors) {
    if (each.requires_grad()) {
      weights_.push_back(each);
      continue;
    }
    tensors_.push_back(each);
    copies_.push_back(at::empty_like(each));
  }
  samples_.resize(weights_.size());
}

// All of it: kernels of batch normalisation write past the version counter.
void StepBackup::take() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < tensors_.size(); ++i) copies_[i].copy_(tensors_[i]);
  if (state_.save && state_.load) text_ = state_.save();
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i].has_storage()) samples_[i].take(weights_[i]);
  }
  is_taken_ = true;
}

// A few elements of each, because some optimizers write past the version counter. The version alone on other devices,
// and where the end of a fused update has given the weight other memory.
bool StepBackup::has_updated() const {
  if (!is_taken_) return false;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const at::Tensor& weight = weights_[i];
    if (!samples_[i].is_set()) continue;
    const bool can_compare = weight.device().is_cpu() && samples_[i].is_in_place(weight);
    if (can_compare ? samples_[i].has_new_elements(weight) : samples_[i].has_new_version(weight)) return true;
  }
  return false;
}

void StepBackup::restore() {
  if (!std::exchange(is_taken_, false)) return;
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < tensors_.size(); ++i) tensors_[i].copy_(copies_[i]);
  if (state_.save && state_.load) state_.load(text_);
}

}  // namespace lockstep
