// What tests of weights that ranks save together share.
#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "lockstep/comm/factory.h"
#include "lockstep/optim/adam.h"
#include "lockstep/train/accelerator.h"
#include "tests/support/pretended_hosts.h"
#include "tests/support/ranks.h"

namespace lockstep {

constexpr int kPartsWidth = 24;

// Numbered layers, which are units, and one with buffers.
inline torch::nn::Sequential parts_net() {
  torch::nn::Sequential net(torch::nn::Linear(kPartsWidth, kPartsWidth), torch::nn::BatchNorm1d(kPartsWidth));
  for (int i = 0; i < 7; ++i) net->push_back(torch::nn::Linear(kPartsWidth, kPartsWidth));
  net->push_back(torch::nn::Linear(kPartsWidth, 3));
  return net;
}

inline torch::Tensor parts_batch(int rank, int step) {
  return (torch::arange(8 * kPartsWidth, torch::kFloat) + 31 * rank + 7 * step).square().sin().view({8, kPartsWidth});
}

struct PartsWay {
  const char* name;
  const char* engine;
  int ranks;
  int stage;  // 0: not fused
  int hosts = 1;
};

// One rank's loop: a model, its optimizer and an accelerator over them.
class PartsRun {
 public:
  PartsRun(const PartsWay& way, const Membership& membership)
      : rank_(membership.rank), accelerator_(options_of(way, membership)) {
    auto [model, optimizer] = accelerator_.prepare(net_, adam_);
    model_.emplace(model);
    optimizer_.emplace(optimizer);
    if (way.stage == 0) return;
    FuseOptions how;
    how.stage = way.stage;
    EXPECT_NE(model_->ddp().fuse(adam_, how).mode(), FuseMode::Off) << model_->ddp().fused_step().reason();
  }
  void backward(int step) { accelerator_.backward((*model_)(parts_batch(rank_, step)).square().mean()); }
  void train(int step) {
    backward(step);
    optimizer_->step();
    optimizer_->zero_grad();
  }
  Accelerator& accelerator() { return accelerator_; }
  DistributedDataParallelBase& ddp() { return model_->ddp(); }
  torch::nn::Sequential& net() { return net_; }
  PreparedModel<torch::nn::Sequential>& model() { return *model_; }

  // Weights, buffers and the optimizer's state by name, whole. Collective.
  std::map<std::string, at::Tensor> everything() {
    std::map<std::string, at::Tensor> all;
    const NamedState state = ddp().optimizer_state(adam_);
    for (const auto& [name, of_parameter] : state) {
      for (const auto& [kind, tensor] : of_parameter.tensors) all[name + " " + kind] = tensor.clone();
    }
    ddp().fused_step().unshard();
    for (const auto& item : net_->named_parameters()) all[item.key()] = item.value().detach().clone();
    for (const auto& item : net_->named_buffers()) all[item.key()] = item.value().clone();
    ddp().fused_step().reshard();
    return all;
  }

 private:
  static AcceleratorOptions options_of(const PartsWay& way, const Membership& membership) {
    AcceleratorOptions options;
    options.ddp.process_group =
        make_communicator(way.engine, way.hosts > 1 ? on_hosts(membership, way.hosts) : membership);
    options.ddp.bucket_cap_mb = 0.002;
    return options;
  }

  int rank_;
  Accelerator accelerator_;
  torch::nn::Sequential net_ = parts_net();
  Adam adam_{net_->parameters(), torch::optim::AdamOptions(0.01)};
  std::optional<PreparedModel<torch::nn::Sequential>> model_;
  std::optional<PreparedOptimizer> optimizer_;
};

inline void run_parts(const PartsWay& way, const std::function<void(PartsRun&, int rank)>& body) {
  run_ranks_as_threads(way.ranks, [&](const Membership& membership) {
    PartsRun run(way, membership);
    body(run, membership.rank);
    run.accelerator().wait_for_everyone();
  });
}

inline void expect_equal_parts(const std::map<std::string, at::Tensor>& got,
                               const std::map<std::string, at::Tensor>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [name, tensor] : want) {
    ASSERT_EQ(got.count(name), 1U) << name;
    EXPECT_TRUE(torch::equal(got.at(name), tensor)) << name;
  }
}

inline SaveStateOptions in_parts() {
  SaveStateOptions how;
  how.state_dict_type = StateDictType::Sharded;
  return how;
}

}  // namespace lockstep
