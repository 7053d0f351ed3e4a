#pragma once

// What the tests of training loops share: one loop runs in one process, or on ranks, with and without fuse.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/optim/sgd.h"
#include "tests/parallel/fused/fuse_ranks.h"

namespace lockstep {

/// How ranks train: without fuse, with one copy of the weights, with a copy each, or with gradients or weights in
/// shards.
enum class LoopWay { Unfused, OneCopy, OwnCopies, Stage2, Stage3 };

/// Where a loop runs. Without a group: in one process, over all samples.
struct LoopRun {
  Group group{};
  LoopWay way = LoopWay::Unfused;

  std::int64_t rank() const { return group ? group->rank() : 0; }
  std::int64_t ranks() const { return group ? group->world_size() : 1; }
  /// This rank's rows.
  at::Tensor part(const at::Tensor& all) const {
    const std::int64_t rows = all.size(0) / ranks();
    return all.narrow(0, rank() * rows, rows).contiguous();
  }
  at::Tensor inputs(int step) const {
    return part(torch::linspace(-2, 1 + 0.3 * step, 32, torch::kDouble).cos().view({8, 4}));
  }
  at::Tensor targets(int step) const {
    return part(torch::linspace(-1, 2 + step, 8, torch::kDouble).sin().view({8, 1}));
  }
};

/// Layers of numbers that are equal on every rank; numbered, so they are units of stage 3.
inline torch::nn::Sequential loop_net(int outputs = 1) {
  torch::nn::Sequential net(make_linear(4, 8), torch::nn::Tanh(), make_linear(8, outputs));
  net->to(torch::kDouble);
  return net;
}

inline at::Tensor loop_weights(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& parameter : parameters) all.push_back(parameter.detach().to(torch::kDouble).flatten());
  return torch::cat(all).clone();
}

/// A module behind its wrapper; in one process, the module itself.
template <typename Module>
class LoopModel {
 public:
  LoopModel(const LoopRun& run, Module module) : way_(run.way), module_(std::move(module)) {
    if (!run.group) return;
    DistributedDataParallelOptions options = fuse_on(run.group);
    options.bucket_cap_mb = 0.0001;  // several buckets, so that one of them may belong to no optimizer yet
    ddp_ = std::make_unique<DistributedDataParallel<Module>>(module_, options);
  }

  at::Tensor operator()(const at::Tensor& x) { return ddp_ ? (*ddp_)(x) : module_->forward(x); }
  at::Tensor by_arrow(const at::Tensor& x) { return ddp_ ? (*ddp_)->forward(x) : module_->forward(x); }
  at::Tensor mean_loss(const LoopRun& run, int step) {
    return ((*this)(run.inputs(step)) - run.targets(step)).pow(2).mean();
  }
  void fuse(FlatOptimizer& optimizer) {
    if (!ddp_ || way_ == LoopWay::Unfused) return;
    FuseOptions how;
    how.stage = way_ == LoopWay::Stage3 ? 3 : way_ == LoopWay::Stage2 ? 2 : 1;
    how.share_weights = way_ == LoopWay::OneCopy || way_ == LoopWay::Stage2;
    EXPECT_NE(ddp_->fuse(optimizer, how).mode(), FuseMode::Off) << ddp_->fused_step().reason();
  }
  at::Tensor end() {
    if (ddp_) ddp_->fused_step().unfuse();
    return loop_weights(module_->parameters());
  }

  Module& module() { return module_; }
  DistributedDataParallel<Module>* wrapper() { return ddp_.get(); }

 private:
  LoopWay way_;
  Module module_;
  std::unique_ptr<DistributedDataParallel<Module>> ddp_;
};

using LoopNet = LoopModel<torch::nn::Sequential>;

constexpr int kLoopSteps = 6;

inline torch::optim::SGDOptions loop_rate(double lr, double momentum = 0) {
  return torch::optim::SGDOptions(lr).momentum(momentum);
}

using LoopStep = std::function<void(LoopNet&, const LoopRun&, SGD&, int)>;

// A loop with one network and SGD.
inline at::Tensor sgd_loop(const LoopRun& run, const LoopStep& step_of, int outputs = 1) {
  LoopNet net(run, loop_net(outputs));
  SGD optimizer(net.module()->parameters(), loop_rate(0.1, 0.9));
  net.fuse(optimizer);
  for (int step = 0; step < kLoopSteps; ++step) step_of(net, run, optimizer, step);
  return net.end();
}

// zero_grad, `backward`, step.
inline at::Tensor plain_loop(const LoopRun& run, const std::function<void(LoopNet&, const LoopRun&, int)>& backward,
                             int outputs = 1) {
  return sgd_loop(
      run,
      [&](LoopNet& net, const LoopRun& it, SGD& optimizer, int step) {
        optimizer.zero_grad();
        backward(net, it, step);
        optimizer.step();
      },
      outputs);
}

/// A loop with a name for its test.
struct Loop {
  const char* name;
  LoopWay last;  // of the ways that the page allows, in the order of LoopWay
  std::function<at::Tensor(const LoopRun&)> train;
  friend std::ostream& operator<<(std::ostream& out, const Loop& loop) { return out << loop.name; }
};

/// Trains in one process, and on two ranks in each way that the loop allows.
inline void expect_weights_of_one_process(const Loop& loop) {
  const at::Tensor want = loop.train(LoopRun());
  for (int way = 0; way <= static_cast<int>(loop.last); ++way) {
    SCOPED_TRACE(way);
    fuse_ranks("thread", 2, [&](const Group& group) {
      const at::Tensor got = loop.train({group, static_cast<LoopWay>(way)});
      EXPECT_TRUE(got.allclose(want, 1e-9, 1e-10)) << (got - want).abs().max() << " in way " << way;
    });
  }
}

}  // namespace lockstep
