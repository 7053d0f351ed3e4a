// Tests a fused optimizer's promises besides equal results: one copy of the weights, shares of the state, fusing and
// unfusing.
#include <gtest/gtest.h>

#include <algorithm>

#include "lockstep/optim/adam.h"
#include "lockstep/optim/sgd.h"
#include "tests/parallel/fused/fuse_ranks.h"

namespace lockstep {
namespace {

using torch::nn::Linear;
using torch::optim::AdamOptions;
using torch::optim::SGDOptions;

// Elements of optimizer state that this rank keeps.
std::int64_t state_elements(const FlatOptimizer& optimizer, const NamedParameters& names) {
  std::int64_t count = 0;
  for (const auto& [name, state] : optimizer.named_state(names)) {
    for (const auto& [kind, tensor] : state.tensors) count += tensor.numel();
  }
  return count;
}

class FuseEngine : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Engines, FuseEngine, ::testing::Values("thread", "shm"),
                         [](const auto& test) { return std::string(test.param); });
INSTANTIATE_TEST_SUITE_P(EnginesLong, FuseEngine, ::testing::Values("gloo"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(FuseEngine, KeepsOneCopyOfTheWeightsAndAShareOfTheState) {
  fuse_ranks(GetParam(), 2, [](Group group) {
    const Linear model = make_linear(64, 32);
    DistributedDataParallel ddp(model, fuse_on(group));
    Adam optimizer(model->parameters(), AdamOptions(0.1));
    const FuseMode mode = ddp.fuse(optimizer).mode();
    EXPECT_EQ(ddp.fused_step().mode(), mode);
    EXPECT_EQ(ddp.fused_step().reason(), "");
    ddp(fuse_batch(group->rank(), 0, 64)).sum().backward();
    optimizer.step();
    // 64 * 32 + 32 elements; each rank has half of them, in two buffers.
    EXPECT_EQ(state_elements(optimizer, ddp.named_parameters()), 64 * 32 + 32);
    EXPECT_TRUE(optimizer.state().empty());

    const bool shared = mode == FuseMode::SharedWeights;
    EXPECT_EQ(shared, std::string(group->engine()) != "gloo");
    group->barrier();
    if (group->rank() == 0) std::fill_n(model->weight.data_ptr<float>(), model->weight.numel(), 42.0F);
    group->barrier();
    EXPECT_EQ(model->weight.eq(42).all().item<bool>(), shared || group->rank() == 0);
  });
}

TEST_P(FuseEngine, LeavesWholeMemoryWhenTheWrapperGoesFirst) {
  fuse_ranks(GetParam(), 2, [](Group group) {
    const Linear model = make_linear(8, 4);
    Adam optimizer(model->parameters(), AdamOptions(0.1));
    {
      DistributedDataParallel ddp(model, fuse_on(group));
      ddp.fuse(optimizer);
      ddp(fuse_batch(group->rank(), 0, 8)).sum().backward();
      optimizer.step();
    }
    const at::Tensor before = model->weight.detach().clone();
    group->barrier();
    model->weight.detach().add_(group->rank());
    group->barrier();
    EXPECT_TRUE(torch::equal(model->weight.detach(), before + group->rank()));
    EXPECT_NE(fuse_error([&] { optimizer.step(); }).find("part of the optimizer's state"), std::string::npos);
  });
}

TEST_P(FuseEngine, LeavesWholeMemoryWhenTheOptimizerGoesFirst) {
  fuse_ranks(GetParam(), 2, [](Group group) {
    const Linear model = make_linear(8, 4);
    DistributedDataParallel ddp(model, fuse_on(group));
    {
      Adam optimizer(model->parameters(), AdamOptions(0.1));
      ddp.fuse(optimizer);
      ddp(fuse_batch(group->rank(), 0, 8)).sum().backward();
      optimizer.step();
    }
    EXPECT_EQ(ddp.fused_step().mode(), FuseMode::Off);
    for (auto& parameter : model->parameters()) parameter.mutable_grad().reset();
    ddp(fuse_batch(group->rank(), 1, 8)).sum().backward();  // averages again
    const at::Tensor mine = model->weight.grad().clone();
    at::Tensor average = mine.clone();
    group->all_reduce(average, ReduceOp::Avg);
    EXPECT_TRUE(torch::equal(mine, average));
    model->weight.detach().fill_(group->rank());
    group->barrier();
    EXPECT_TRUE(model->weight.eq(group->rank()).all().item<bool>());
    Adam another(model->parameters(), AdamOptions(0.1));
    EXPECT_NE(ddp.fuse(another).mode(), FuseMode::Off);
  });
}

TEST_P(FuseEngine, GoesOnUnfusedWithAllOfTheState) {
  fuse_ranks(GetParam(), 3, [](Group group) {
    std::vector<std::vector<at::Tensor>> ends;
    for (const bool fused : {false, true}) {
      const Linear model = make_linear(40, 4);
      DistributedDataParallel ddp(model, fuse_on(group));
      AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(0.1));
      for (int step = 0; step < 6; ++step) {
        if (fused && step == 2) {
          EXPECT_NE(ddp.fuse(optimizer).mode(), FuseMode::Off);  // with state that is there already
        }
        if (step == 4) ddp.fused_step().unfuse();
        for (auto& parameter : model->parameters()) parameter.mutable_grad().reset();
        ddp(fuse_batch(group->rank(), step, 40)).pow(2).mean().backward();
        optimizer.step();
      }
      EXPECT_EQ(ddp.fused_step().mode(), FuseMode::Off);
      EXPECT_FALSE(optimizer.is_sharded());
      EXPECT_EQ(state_elements(optimizer, ddp.named_parameters()), 2 * (40 * 4 + 4));
      ends.push_back({model->weight.detach().clone(), model->bias.detach().clone()});
    }
    EXPECT_TRUE(torch::equal(ends[0][0], ends[1][0]));
    EXPECT_TRUE(torch::equal(ends[0][1], ends[1][1]));
  });
}

TEST_P(FuseEngine, SavesStateThatAnyNumberOfRanksCanLoad) {
  NamedState saved;
  std::vector<at::Tensor> weights;
  const auto train = [](auto& ddp, FlatOptimizer& optimizer, int rank, int first, int last) {
    for (int step = first; step < last; ++step) {
      for (const auto& [name, parameter] : ddp.named_parameters()) at::Tensor(parameter).mutable_grad().reset();
      ddp(fuse_batch(rank, step, 40)).pow(2).mean().backward();
      optimizer.step();
    }
  };
  // All ranks see the same data, so their number does not matter.
  run_ranks_as_threads(2, [&](const Membership& membership) {
    const Group group = make_communicator(std::string(GetParam()) == "gloo" ? "gloo" : "thread", membership);
    const Linear model = make_linear(40, 4);
    DistributedDataParallel ddp(model, fuse_on(group));
    Adam optimizer(model->parameters(), AdamOptions(0.1));
    ddp.fuse(optimizer);
    train(ddp, optimizer, 0, 0, 3);
    NamedState state = ddp.optimizer_state(optimizer);
    EXPECT_EQ(state.at("weight").step, 3);
    EXPECT_TRUE(state.at("weight").is_whole());
    if (group->rank() == 0) {
      saved = std::move(state);
      for (auto& parameter : model->parameters()) weights.push_back(parameter.detach().clone());
    }
    group->barrier();
  });
  for (const int ranks : {1, 3}) {
    fuse_ranks(GetParam(), ranks, [&](Group group) {
      std::vector<at::Tensor> ends;
      for (const bool fused : {false, true}) {
        const Linear model = make_linear(40, 4);
        DistributedDataParallel ddp(model, fuse_on(group));
        Adam optimizer(model->parameters(), AdamOptions(0.1));
        if (fused) ddp.fuse(optimizer);
        {
          const torch::NoGradGuard no_grad;
          for (std::size_t i = 0; i < weights.size(); ++i) model->parameters()[i].copy_(weights[i]);
        }
        optimizer.load_named_state(ddp.named_parameters(), saved);
        group->barrier();
        train(ddp, optimizer, 0, 3, 6);
        ends.push_back(model->weight.detach().clone());
      }
      EXPECT_TRUE(torch::equal(ends[0], ends[1])) << ranks << " ranks";
    });
  }
}

TEST(Fuse, ServesParametersOutsideTheOptimizerAsBefore) {
  fuse_ranks("thread", 2, [](Group group) {
    std::vector<at::Tensor> ends;
    for (const bool fused : {false, true}) {
      const Linear model = make_linear(20, 4);
      auto options = fuse_on(group);
      options.bucket_cap_mb = 0.00001;
      DistributedDataParallel ddp(model, options);
      SGD optimizer(std::vector<at::Tensor>{model->weight}, SGDOptions(0.1));
      torch::optim::SGD rest({model->bias}, torch::optim::SGDOptions(0.1));
      if (fused) {
        EXPECT_EQ(ddp.fuse(optimizer).mode(), FuseMode::SharedWeights);
      }
      for (int step = 0; step < 3; ++step) {
        for (auto& parameter : model->parameters()) parameter.mutable_grad().reset();
        ddp(fuse_batch(group->rank(), step, 20)).pow(2).mean().backward();
        optimizer.step();
        rest.step();
      }
      EXPECT_EQ(ddp.last_step().buckets, 2U);
      ends.push_back(torch::cat({model->weight.detach().view(-1), model->bias.detach()}));
    }
    EXPECT_TRUE(torch::equal(ends[0], ends[1]));
  });
}

}  // namespace
}  // namespace lockstep
