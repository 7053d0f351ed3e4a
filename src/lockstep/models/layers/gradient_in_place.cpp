#include "lockstep/models/layers/gradient_in_place.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

namespace lockstep {
namespace {

bool is_plain_backward() {
  const auto* restriction = torch::autograd::get_current_graph_task_exec_info();
  return !c10::GradMode::is_enabled() && (restriction == nullptr || restriction->empty());
}

bool has_hooks(const at::Tensor& parameter) {
  if (!torch::autograd::impl::hooks(parameter).empty()) return true;
  const auto accumulator = torch::autograd::impl::try_get_grad_accumulator(parameter);
  return accumulator && !accumulator->pre_hooks().empty();
}

}  // namespace

at::Tensor gradient_in_place(const at::Tensor& parameter) {
  if (!is_plain_backward() || !parameter.is_leaf() || has_hooks(parameter)) return {};
  const at::Tensor& gradient = parameter.grad();
  const bool fits = gradient.defined() && gradient.layout() == at::kStrided && gradient.is_contiguous() &&
                    !gradient.requires_grad() && gradient.scalar_type() == parameter.scalar_type() &&
                    gradient.device() == parameter.device();
  return fits ? gradient : at::Tensor();
}

}  // namespace lockstep
