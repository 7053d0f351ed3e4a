#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>

namespace lockstep {

/// Recomputes its part of the graph in backward, as activation checkpointing does: a backward inside a backward.
class Recompute : public torch::autograd::Function<Recompute> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context, torch::Tensor input,
                               std::function<torch::Tensor(torch::Tensor)>* body) {
    context->save_for_backward({input});
    context->saved_data["body"] = reinterpret_cast<std::int64_t>(body);
    return (*body)(input);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    auto* body = reinterpret_cast<std::function<torch::Tensor(torch::Tensor)>*>(context->saved_data["body"].toInt());
    const torch::AutoGradMode with_grad(true);
    torch::Tensor input = context->get_saved_variables()[0].detach().requires_grad_(true);
    torch::Tensor output = (*body)(input);
    output.backward(grads[0]);
    return {input.grad(), torch::Tensor()};
  }
};

}  // namespace lockstep
