// Tests wrappers that begin empty, as LibTorch's module holders may, and get a module later.
#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "lockstep/optim/adam.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/parallel/fully_sharded_data_parallel.h"
#include "lockstep/parallel/parallel_context.h"
#include "tests/parallel/fused/fuse_ranks.h"

namespace lockstep {
namespace {

using torch::nn::Linear;
using LinearDdp = DistributedDataParallel<Linear>;

static_assert(std::is_nothrow_move_constructible_v<DistributedDataParallelBase::NoSync>);
static_assert(!std::is_copy_constructible_v<LinearDdp> && !std::is_copy_assignable_v<LinearDdp>);
static_assert(std::is_move_constructible_v<LinearDdp> && std::is_move_assignable_v<LinearDdp>);
static_assert(std::is_move_constructible_v<DistributedDataParallel<torch::jit::Module>>);
static_assert(std::is_move_constructible_v<FullyShardedDataParallel<Linear>>);

// As programs have it: a member that is assigned when the module is there.
struct TrainedDdp {
  LinearDdp ddp{nullptr};
};

at::Tensor weight_gradient_of_step(LinearDdp& ddp, const Group& group, int step) {
  ddp.zero_grad();
  ddp(fuse_batch(group->rank(), step, 8)).pow(2).sum().backward();
  return ddp.module()->weight.grad().clone();
}

TEST(EmptyWrapper, IsWhatTheDefaultAndNullMake) {
  EXPECT_TRUE(LinearDdp().is_empty());
  EXPECT_TRUE(LinearDdp(nullptr).is_empty());
  EXPECT_TRUE(TrainedDdp().ddp.is_empty());
  EXPECT_FALSE(TrainedDdp().ddp);
  EXPECT_TRUE(DistributedDataParallel<std::shared_ptr<torch::nn::LinearImpl>>().is_empty());
  EXPECT_TRUE(DistributedDataParallel<torch::jit::Module>().is_empty());
  EXPECT_TRUE(FullyShardedDataParallel<Linear>().is_empty());
}

struct UseOfDdp {
  const char* name;
  std::function<void(LinearDdp&)> call;
};

class UseOfEmpty : public ::testing::TestWithParam<UseOfDdp> {};

TEST_P(UseOfEmpty, IsAnError) {
  LinearDdp ddp;
  const std::string error = fuse_error([&] { GetParam().call(ddp); });
  EXPECT_NE(error.find("this DistributedDataParallel is empty"), std::string::npos) << error;
  EXPECT_NE(error.find("assign one to it first"), std::string::npos) << error;
}

INSTANTIATE_TEST_SUITE_P(Calls, UseOfEmpty,
                         ::testing::Values(UseOfDdp{"forward",
                                                    [](LinearDdp& ddp) {
                                                      ddp(torch::ones({1, 8}));
                                                    }},
                                           UseOfDdp{"arrow",
                                                    [](LinearDdp& ddp) {
                                                      ddp->forward(torch::ones({1, 8}));
                                                    }},
                                           UseOfDdp{"module", [](LinearDdp& ddp) { ddp.module(); }},
                                           UseOfDdp{"train", [](LinearDdp& ddp) { ddp.train(); }},
                                           UseOfDdp{"parameters", [](LinearDdp& ddp) { ddp.parameters(); }},
                                           UseOfDdp{"zero_grad", [](LinearDdp& ddp) { ddp.zero_grad(); }},
                                           UseOfDdp{"no_sync",
                                                    [](LinearDdp& ddp) { const auto quiet = ddp.no_sync(); }},
                                           UseOfDdp{"join", [](LinearDdp& ddp) { ddp.join([] {}); }},
                                           UseOfDdp{"fused_step", [](LinearDdp& ddp) { ddp.fused_step(); }},
                                           UseOfDdp{"named_parameters", [](LinearDdp& ddp) { ddp.named_parameters(); }},
                                           UseOfDdp{"last_step", [](LinearDdp& ddp) { ddp.last_step(); }},
                                           UseOfDdp{"process_group", [](LinearDdp& ddp) { ddp.process_group(); }},
                                           UseOfDdp{"moved_from",
                                                    [](LinearDdp& ddp) {
                                                      LinearDdp* const moved = &ddp;
                                                      const LinearDdp other = std::move(ddp);
                                                      moved->eval();
                                                    }}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(EmptyWrapper, OfFullyShardIsAnErrorWhenUsed) {
  FullyShardedDataParallel<Linear> fsdp{nullptr};
  EXPECT_FALSE(fsdp);
  EXPECT_NE(fuse_error([&] { fsdp(torch::ones({1, 8})); }).find("is empty"), std::string::npos);
  EXPECT_NE(fuse_error([&] { fsdp.unshard(); }).find("is empty"), std::string::npos);
}

TEST(EmptyWrapper, DoesNotWrapANullModule) {
  const std::string of_pointer =
      fuse_error([] { DistributedDataParallel ddp(std::shared_ptr<torch::nn::LinearImpl>{}); });
  EXPECT_NE(of_pointer.find("the module to wrap is null"), std::string::npos) << of_pointer;
  const std::string of_holder = fuse_error([] { LinearDdp ddp(Linear(nullptr)); });
  EXPECT_NE(of_holder.find("the module to wrap is null"), std::string::npos) << of_holder;
}

TEST(EmptyWrapper, AveragesOnceItIsAssigned) {
  fuse_ranks("thread", 2, [](const Group& group) {
    const Linear model = make_linear(8, 4), plain = make_linear(8, 4);
    LinearDdp other(plain, fuse_on(group));
    TrainedDdp trained;
    trained.ddp = DistributedDataParallel(model, fuse_on(group));
    EXPECT_FALSE(trained.ddp.is_empty());
    for (int step = 0; step < 2; ++step) {
      EXPECT_TRUE(
          torch::equal(weight_gradient_of_step(trained.ddp, group, step), weight_gradient_of_step(other, group, step)));
    }
  });
}

// Everything that refers to the wrapper must find it in its new place: hooks, no_sync, the fused step.
TEST(EmptyWrapper, MovesInTheMiddleOfATraining) {
  fuse_ranks("thread", 2, [](const Group& group) {
    const Linear model = make_linear(8, 4), plain = make_linear(8, 4);
    LinearDdp other(plain, fuse_on(group)), first(model, fuse_on(group));
    Adam adam(model->parameters(), torch::optim::AdamOptions(0.1));
    Adam of_plain(plain->parameters(), torch::optim::AdamOptions(0.1));
    const FusedStep fused = first.fuse(adam);
    other.fuse(of_plain);
    weight_gradient_of_step(first, group, 0);
    weight_gradient_of_step(other, group, 0);
    std::optional<DistributedDataParallelBase::NoSync> quiet(first.no_sync());
    LinearDdp second = std::move(first);
    quiet.reset();
    EXPECT_EQ(fused.mode(), FuseMode::SharedWeights);
    EXPECT_EQ(second.fused_step().mode(), FuseMode::SharedWeights);
    adam.step();
    of_plain.step();
    LinearDdp third;
    third = std::move(second);
    weight_gradient_of_step(third, group, 1);
    weight_gradient_of_step(other, group, 1);
    adam.step();
    of_plain.step();
    EXPECT_TRUE(torch::equal(model->weight, plain->weight));
    third = nullptr;
    EXPECT_EQ(fused.mode(), FuseMode::Off);
    EXPECT_TRUE(third.is_empty());
  });
}

// A program keeps its lines, `model->forward(x)`: the pointer's arrow reaches the wrapper, and its forward decides.
TEST(EmptyWrapper, InAPointerIsWhatTheArrowReaches) {
  fuse_ranks("thread", 2, [](const Group& group) {
    std::shared_ptr<LinearDdp> model;
    model = std::make_shared<LinearDdp>(make_linear(8, 4), fuse_on(group));
    {
      const auto quiet = model->no_sync();
      model->forward(fuse_batch(group->rank(), 0, 8)).sum().backward();
    }
    at::Tensor mine = model->module()->weight.grad().clone(), average = mine.clone();
    group->all_reduce(average, ReduceOp::Avg);
    EXPECT_FALSE(torch::equal(mine, average)) << "not synchronised";
    model->zero_grad();
    model->forward(fuse_batch(group->rank(), 0, 8)).sum().backward();
    EXPECT_TRUE(torch::equal(model->module()->weight.grad(), average));
  });
}

TEST(EmptyWrapper, NoSyncMayOutliveTheWrapper) {
  fuse_ranks("thread", 1, [](const Group& group) {
    LinearDdp ddp(make_linear(8, 4), fuse_on(group));
    const auto quiet = ddp.no_sync();
    ddp = nullptr;
  });
}

TEST(EmptyWrapper, OfFullyShardMoves) {
  fuse_ranks("thread", 2, [](const Group& group) {
    const Linear model = make_linear(8, 4);
    Adam adam(model->parameters(), torch::optim::AdamOptions(0.1));
    FullyShardOptions options;
    options.process_group = group;
    options.mp_policy.param_dtype = at::kBFloat16;
    options.mp_policy.output_dtype = at::kFloat;
    FullyShardedDataParallel<Linear> fsdp;
    fsdp = fully_shard(model, adam, options);
    const at::Tensor before = model->weight.detach().clone();
    fsdp(fuse_batch(group->rank(), 0, 8)).pow(2).sum().backward();
    adam.step();
    EXPECT_FALSE(torch::equal(model->weight, before));
  });
}

}  // namespace
}  // namespace lockstep
