#pragma once

#include <torch/torch.h>

#include "tests/parallel/fused/fuse_ranks.h"

namespace lockstep {

/// @param slots  buckets that a rank has memory for
inline FuseOptions stage_2(std::size_t slots = 2) {
  FuseOptions how;
  how.stage = 2;
  how.slots = slots;
  return how;
}

/// A layer whose weight and bias have a bucket each, and an optimizer that is fused with it unless `how` is null.
template <typename Optimizer>
struct Stage2Subject {
  Stage2Subject(const Group& group, const FuseOptions* how, int in = 20, double rate = 0.05)
      : model(make_linear(in, 4)),
        ddp(model, small_buckets(group)),
        optimizer(model->parameters(), typename Optimizer::Options(rate)) {
    if (how == nullptr) return;
    EXPECT_NE(ddp.fuse(optimizer, *how).mode(), FuseMode::Off);
  }
  static DistributedDataParallelOptions small_buckets(const Group& group) {
    DistributedDataParallelOptions options = fuse_on(group);
    options.bucket_cap_mb = 0.0001;
    return options;
  }
  void backward(int rank, int step) {
    ddp(fuse_batch(rank, step, static_cast<int>(model->weight.size(1)))).pow(2).mean().backward();
  }
  void backward_alone(int rank, int step) {
    const auto quiet = ddp.no_sync();
    backward(rank, step);
  }
  at::Tensor weights() const { return torch::cat({model->weight.detach().flatten(), model->bias.detach()}).clone(); }

  torch::nn::Linear model;
  DistributedDataParallel<torch::nn::Linear> ddp;
  Optimizer optimizer;
};

/// The gradients of this rank alone, flat: weight, then bias.
inline at::Tensor local_gradient(const torch::nn::Linear& of, int rank, int step) {
  torch::nn::Linear model = make_linear(static_cast<int>(of->weight.size(1)), 4);
  {
    const torch::NoGradGuard no_grad;
    model->weight.copy_(of->weight);
    model->bias.copy_(of->bias);
  }
  model(fuse_batch(rank, step, static_cast<int>(of->weight.size(1)))).pow(2).mean().backward();
  return torch::cat({model->weight.grad().flatten(), model->bias.grad()});
}

}  // namespace lockstep
