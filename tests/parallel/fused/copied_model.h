#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

#include "lockstep/optim/sgd.h"
#include "tests/parallel/fused/bf16_net.h"
#include "tests/parallel/fused/fuse_ranks.h"

namespace lockstep {

/// A network that is trained in bf16, with published copies of its weights or without.
struct CopiedModel {
  CopiedModel(const Group& with, bool publishes)
      : group(with),
        net(std::make_shared<Bf16Net>()),
        ddp(net, fuse_on(group)),
        optimizer(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9)) {
    FuseOptions options;
    if (publishes) options.compute_dtype = at::kBFloat16;
    EXPECT_NE(ddp.fuse(optimizer, options).mode(), FuseMode::Off);
  }
  at::Tensor loss(int step) { return ddp(bf16_net_input(group->rank(), step)).pow(2).mean(); }
  void train(int step) {
    optimizer.zero_grad();
    loss(step).backward();
    optimizer.step();
  }
  std::vector<at::Tensor> values() const {
    std::vector<at::Tensor> all;
    for (const at::Tensor& parameter : net->parameters()) all.push_back(parameter.detach().clone());
    return all;
  }
  void write(const std::function<void(at::Tensor&)>& change) {
    const torch::NoGradGuard no_grad;
    for (at::Tensor& parameter : net->parameters()) change(parameter);
  }
  void barrier() const { group->barrier(); }
  /// One rank writes by address what ranks share; otherwise each writes its own.
  bool is_writer() const { return group->rank() == 0 || ddp.fused_step().mode() != FuseMode::SharedWeights; }

  Group group;
  std::shared_ptr<Bf16Net> net;
  DistributedDataParallel<std::shared_ptr<Bf16Net>> ddp;
  SGD optimizer;
};

}  // namespace lockstep
