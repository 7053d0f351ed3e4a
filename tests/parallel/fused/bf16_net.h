#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "lockstep/detail/models/activation.h"
#include "lockstep/detail/tensor/autocast.h"
#include "lockstep/models/layers/dense_function.h"
#include "lockstep/models/layers/layers.h"

namespace lockstep {

/// Everything of ours that reads weights in bf16 under autocast, and a branch that a forward may leave out.
class Bf16Net : public torch::nn::Module {
 public:
  explicit Bf16Net(std::int64_t width = 24)
      : query(register_module("query", std::make_shared<Dense>(width, width))),
        key(register_module("key", std::make_shared<Dense>(width, width))),
        value(register_module("value", std::make_shared<Dense>(width, width))),
        norm(register_module("norm", std::make_shared<Norm>(width, 1e-5))),
        up(register_module("up", std::make_shared<Dense>(width, 40))),
        down(register_module("down", std::make_shared<TransposedDense>(40, width))),
        branch(register_module("branch", std::make_shared<Dense>(width, width))),
        last(register_module("last", std::make_shared<Dense>(width, 3, /*has_bias=*/false))) {
    auto generator = at::detail::createCPUGenerator(7);
    const torch::NoGradGuard no_grad;
    for (at::Tensor& parameter : parameters()) parameter.copy_(torch::randn(parameter.sizes(), generator) * 0.2);
  }

  /// @return  fp32
  at::Tensor forward(const at::Tensor& x, bool takes_branch = true) {
    const Autocast autocast(c10::DeviceType::CPU, at::kBFloat16, true);
    const std::int64_t width = x.size(1);
    const at::Tensor beside =
        dense_beside(x, {query->weight(), key->weight(), value->weight()}, {query->bias(), key->bias(), value->bias()});
    at::Tensor h =
        beside.narrow(1, 0, width) * torch::tanh(beside.narrow(1, width, width)) + beside.narrow(1, 2 * width, width);
    h = down->forward(activate(Activation::Gelu, up->forward(norm->forward(h).to(at::kBFloat16))));
    if (takes_branch) h = h + branch->forward(h);
    return last->forward(h).to(at::kFloat);
  }

  std::shared_ptr<Dense> query, key, value;
  std::shared_ptr<Norm> norm;
  std::shared_ptr<Dense> up;
  std::shared_ptr<TransposedDense> down;
  std::shared_ptr<Dense> branch, last;
};

inline at::Tensor bf16_net_input(int rank, int step, int micro = 0, std::int64_t width = 24) {
  auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(1000 * rank + 10 * step + micro));
  return torch::randn({6, width}, generator);
}

}  // namespace lockstep
