#include "lockstep/parallel/update/update_lists.h"

namespace lockstep {

std::vector<at::Tensor> other_parameters(const UpdateContext& context) {
  std::vector<at::Tensor> result;
  for (const auto& group : context.optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      if (context.covered.count(parameter.unsafeGetTensorImpl()) == 0) result.push_back(parameter);
    }
  }
  return result;
}

void zero_other_gradients(const UpdateContext& context) {
  for (const at::Tensor& parameter : other_parameters(context)) {
    if (parameter.grad().defined()) parameter.mutable_grad().zero_();
  }
}

std::vector<std::size_t> indices_of(const UpdateContext& context, const std::vector<at::Tensor>& parameters) {
  std::vector<std::size_t> indices;
  for (const at::Tensor& parameter : parameters) {
    indices.push_back(context.covered.at(parameter.unsafeGetTensorImpl()));
  }
  return indices;
}

std::vector<std::size_t> indices_of_optimizer(const UpdateContext& context) {
  std::vector<std::size_t> indices;
  for (const auto& group : context.optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      const auto found = context.covered.find(parameter.unsafeGetTensorImpl());
      if (found != context.covered.end()) indices.push_back(found->second);  // others are frozen
    }
  }
  return indices;
}

}  // namespace lockstep
