#pragma once

// A small module with buffers, and the ways to its forward: by the wrapper, or past it.
#include <torch/torch.h>

#include "tests/parallel/fused/fuse_ranks.h"

namespace lockstep {

struct NormedPolicyImpl : torch::nn::Module {
  NormedPolicyImpl() {
    register_module("body", body);
    register_module("norm", norm);
    calls = register_buffer("calls", torch::zeros({1}));
    to(torch::kDouble);
  }
  at::Tensor evaluate_actions(const at::Tensor& x) {
    const torch::NoGradGuard no_grad;
    calls.add_(x.sum().item<double>());
    const torch::AutoGradMode with_grad(true);
    return norm(body(x));
  }
  at::Tensor forward(const at::Tensor& x) { return evaluate_actions(x); }
  torch::nn::Linear body = make_linear(3, 2);
  torch::nn::BatchNorm1d norm{2};
  at::Tensor calls;
};
TORCH_MODULE(NormedPolicy);

enum class Way { Wrapper, Arrow, OtherMember, Module, Mixed };

inline constexpr Way kAllWays[] = {Way::Wrapper, Way::Arrow, Way::OtherMember, Way::Module, Way::Mixed};

template <typename Wrapped>
at::Tensor forward_by(Way way, Wrapped& ddp, NormedPolicy& net, const at::Tensor& x, int step) {
  if (way == Way::Mixed) way = step % 2 == 0 ? Way::Wrapper : Way::Arrow;
  if (way == Way::Wrapper) return ddp(x);
  if (way == Way::Arrow) return ddp->forward(x);
  if (way == Way::OtherMember) return ddp->evaluate_actions(x);
  return net->forward(x);
}

inline at::Tensor policy_batch(int rank, int step) {
  return torch::linspace(-1 - rank, 2 + step, 12, torch::kDouble).cos().view({4, 3});
}

inline at::Tensor buffers_of(const NormedPolicy& net) {
  return torch::cat({net->norm->running_mean, net->norm->running_var, net->calls}).clone();
}

inline at::Tensor weights_of(const NormedPolicy& net) {
  return torch::cat({net->body->weight.detach().flatten(), net->body->bias.detach()}).clone();
}

}  // namespace lockstep
