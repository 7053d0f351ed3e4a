#include "lockstep/replicas/gradient_hooks.h"

#include <torch/csrc/autograd/function.h>

namespace lockstep {

bool has_gradient_hooks(const at::Tensor& leaf) {
  const auto* meta = torch::autograd::impl::get_autograd_meta(leaf);  // null if it is frozen and was never used
  if (meta != nullptr && !meta->hooks_.empty()) return true;
  const auto accumulator = torch::autograd::impl::try_get_grad_accumulator(leaf);
  return accumulator && (!accumulator->pre_hooks().empty() || !accumulator->post_hooks().empty());
}

HooksOff::HooksOff(const std::vector<at::Tensor>& leaves) {
  for (const at::Tensor& leaf : leaves) {
    auto* meta = torch::autograd::impl::get_autograd_meta(leaf);
    if (meta != nullptr && !meta->hooks_.empty()) kept_.emplace_back(meta, std::exchange(meta->hooks_, {}));
  }
}

HooksOff::~HooksOff() {
  for (auto& [meta, hooks] : kept_) meta->hooks_ = std::move(hooks);
}

}  // namespace lockstep
