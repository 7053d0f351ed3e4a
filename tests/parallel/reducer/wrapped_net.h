#pragma once

#include <torch/torch.h>

// What tests of changes after wrapping share: a net, its batches, and weights that replace its own.
namespace lockstep::after_wrapping {

constexpr int kReplicas = 2;

struct WrappedNetImpl : torch::nn::Module {
  WrappedNetImpl() {
    body = register_module(
        "body", torch::nn::Sequential(torch::nn::Linear(4, 4), torch::nn::Tanh(), tied, torch::nn::Tanh(), tied));
    head = register_module("head", torch::nn::Linear(torch::nn::LinearOptions(4, 2).bias(false)));
    to(torch::kDouble);
    const torch::NoGradGuard no_grad;
    double next = 1;
    for (auto& parameter : parameters()) {
      parameter.copy_(torch::linspace(-0.5, 1 / next++, parameter.numel(), torch::kDouble).view(parameter.sizes()));
    }
  }
  torch::Tensor forward(torch::Tensor x) { return head->forward(body->forward(x)); }
  torch::nn::Linear tied{4, 4};  // used twice
  torch::nn::Sequential body{nullptr};
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(WrappedNet);

inline torch::Tensor batch_of(int rank, int step, int micro) {
  return torch::linspace(-1 - rank, 1 + step + 0.3 * micro, 12, torch::kDouble).view({3, 4}).sin();
}

/// The weights of another training, to replace the present ones.
inline torch::Tensor other_weights(const torch::Tensor& parameter) {
  return torch::linspace(0.4, -0.7, parameter.numel(), torch::kDouble).view(parameter.sizes());
}

inline torch::Tensor loss_of_output(const torch::Tensor& output) { return output.square().mean() + output.sum(); }

}  // namespace lockstep::after_wrapping
