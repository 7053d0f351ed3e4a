#include "lockstep/parallel/elastic/step_backup.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>

#include <utility>

namespace lockstep {

StepBackup::StepBackup(const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& each : tensors) {
    if (each.requires_grad()) continue;
    tensors_.push_back(each);
    copies_.push_back(at::empty_like(each));
  }
}

// All of it: kernels of batch normalisation write past the version counter.
void StepBackup::take() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < tensors_.size(); ++i) copies_[i].copy_(tensors_[i]);
  is_taken_ = true;
}

void StepBackup::restore() {
  if (!std::exchange(is_taken_, false)) return;
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < tensors_.size(); ++i) tensors_[i].copy_(copies_[i]);
}

}  // namespace lockstep
