// Tests what `fuse` returns: a handle that may be dropped, copied and kept longer than what it refers to.
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "lockstep/detail/parallel/fused_step.h"
#include "lockstep/optim/adam.h"
#include "lockstep/parallel/fully_sharded_data_parallel.h"
#include "tests/parallel/fused/fuse_ranks.h"

namespace lockstep {
namespace {

using torch::optim::AdamOptions;

// On engine tcp, where stage 3 cuts weights.
FuseOptions stage_3_of_handle() {
  FuseOptions options;
  options.stage = 3;
  return options;
}

TEST(FusedStepHandle, OfNoStepIsOffAndDoesNothing) {
  const FusedStep none;
  EXPECT_EQ(none.mode(), FuseMode::Off);
  EXPECT_EQ(none.reason(), "");
  none.unfuse();
  none.unfuse_weights();
  none.own_weights();
  EXPECT_FALSE(none.unshard());
  none.reshard();
  EXPECT_TRUE(none.weight_parts().empty());
  none.write_weight_parts([](const TensorParts&) { ADD_FAILURE() << "there is nothing to write"; });
  EXPECT_EQ(none.peak_weight_bytes(), 0);
  EXPECT_FALSE(none.has_sent_gradients());
}

TEST(FusedStepHandle, OfAWrapperIsOffUntilFuse) {
  fuse_ranks("thread", 1, [](const Group& group) {
    const torch::nn::Linear model = make_linear(8, 4);
    DistributedDataParallel ddp(model, fuse_on(group));
    EXPECT_EQ(ddp.fused_step().mode(), FuseMode::Off);
    Adam optimizer(model->parameters(), AdamOptions(0.1));
    EXPECT_EQ(ddp.fuse(optimizer).mode(), FuseMode::SharedWeights);
    EXPECT_EQ(ddp.fused_step().mode(), FuseMode::SharedWeights);
  });
}

TEST(FusedStepHandle, EndsWithUnfuseForAllCopies) {
  fuse_ranks("thread", 2, [](const Group& group) {
    const torch::nn::Linear model = make_linear(8, 4);
    DistributedDataParallel ddp(model, fuse_on(group));
    Adam optimizer(model->parameters(), AdamOptions(0.1));
    const FusedStep fused = ddp.fuse(optimizer);
    const FusedStep copy = fused;
    copy.unfuse();
    EXPECT_EQ(fused.mode(), FuseMode::Off);
    fused.unfuse();  // a second time
    const FusedStep again = ddp.fuse(optimizer);
    EXPECT_EQ(fused.mode(), FuseMode::Off) << "of the first step";
    fused.unfuse();
    EXPECT_EQ(again.mode(), FuseMode::SharedWeights);
    ddp(fuse_batch(group->rank(), 0, 8)).sum().backward();
    optimizer.step();
    again.unfuse_weights();
    EXPECT_EQ(ddp.fused_step().mode(), FuseMode::Off);
    EXPECT_NE(fuse_error([&] { optimizer.step(); }).find("part of the optimizer's state"), std::string::npos);
  });
}

TEST(FusedStepHandle, OutlivesTheWrapperAndTheOptimizer) {
  fuse_ranks("thread", 2, [](const Group& group) {
    const torch::nn::Linear model = make_linear(8, 4);
    FusedStep fused;
    {
      Adam optimizer(model->parameters(), AdamOptions(0.1));
      {
        DistributedDataParallel ddp(model, fuse_on(group));
        fused = ddp.fuse(optimizer);
        EXPECT_EQ(fused.mode(), FuseMode::SharedWeights);
      }
      EXPECT_EQ(fused.mode(), FuseMode::Off);
      fused.unfuse();
      fused.own_weights();
    }
    DistributedDataParallel ddp(model, fuse_on(group));
    {
      Adam optimizer(model->parameters(), AdamOptions(0.1));
      fused = ddp.fuse(optimizer);
    }
    EXPECT_EQ(fused.mode(), FuseMode::Off);
    fused.unfuse();
  });
}

TEST(FusedStepHandle, KeepsTheReasonOfItsFuse) {
  fuse_ranks("thread", 1, [](const Group& group) {
    const torch::nn::Linear model = make_linear(8, 4);
    DistributedDataParallel ddp(model, fuse_on(group));
    std::vector<at::Tensor> twice = model->parameters();
    twice.push_back(twice.front());
    Adam optimizer(twice, AdamOptions(0.1));
    const FusedStep refused = ddp.fuse(optimizer);
    EXPECT_EQ(refused.mode(), FuseMode::Off);
    EXPECT_NE(refused.reason().find("twice"), std::string::npos) << refused.reason();
    Adam once(model->parameters(), AdamOptions(0.1));
    EXPECT_EQ(ddp.fuse(once).reason(), "");
    EXPECT_NE(refused.reason(), "");
  });
}

TEST(FusedStepHandle, GathersAndFreesWeights) {
  fuse_ranks("gloo", 2, [](const Group& group) {
    const torch::nn::Linear model = make_linear(64, 32);
    DistributedDataParallel ddp(model, fuse_on(group));
    Adam optimizer(model->parameters(), AdamOptions(0.1));
    const FusedStep fused = ddp.fuse(optimizer, stage_3_of_handle());
    at::Tensor elements = torch::zeros({1}, at::kLong);
    for (const TensorPart& part : fused.weight_parts()) elements += part.tensor.numel();
    EXPECT_LT(elements.item<std::int64_t>(), 64 * 32 + 32);
    group->all_reduce(elements);
    EXPECT_EQ(elements.item<std::int64_t>(), 64 * 32 + 32);
    EXPECT_TRUE(fused.unshard());
    EXPECT_FALSE(fused.unshard()) << "they are there";
    fused.reshard();
    EXPECT_GT(fused.peak_weight_bytes(), 0);
    fused.unfuse();
    EXPECT_TRUE(fused.weight_parts().empty());
  });
}

TEST(FusedStepHandle, OfFullyShardIsThatOfItsWrapper) {
  fuse_ranks("gloo", 2, [](const Group& group) {
    const torch::nn::Linear model = make_linear(64, 32);
    Adam optimizer(model->parameters(), AdamOptions(0.1));
    FullyShardOptions options;
    options.process_group = group;
    auto fsdp = fully_shard(model, optimizer, options);
    EXPECT_EQ(fsdp.fused_step().mode(), FuseMode::ShardedState);
    EXPECT_FALSE(fsdp.fused_step().weight_parts().empty());
    fsdp.fused_step().unfuse();
    EXPECT_EQ(fsdp.ddp().fused_step().mode(), FuseMode::Off);
  });
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
TEST(FusedStepHandle, ProgramsWithTheOldNamesCompile) {
  fuse_ranks("gloo", 2, [](const Group& group) {
    const torch::nn::Linear model = make_linear(64, 32);
    DistributedDataParallel ddp(model, fuse_on(group));
    Adam optimizer(model->parameters(), AdamOptions(0.1));
    const FuseMode mode = ddp.fuse(optimizer, stage_3_of_handle());
    EXPECT_EQ(mode, FuseMode::ShardedState);
    EXPECT_EQ(ddp.fuse_mode(), mode);
    EXPECT_EQ(ddp.fuse_reason(), "");
    EXPECT_FALSE(ddp.has_sent_gradients());
    EXPECT_TRUE(ddp.unshard());
    ddp.reshard();
    EXPECT_FALSE(ddp.weight_parts().empty());
    ddp.write_weight_parts([](const TensorParts& parts) {
      for (const TensorPart& part : parts) part.tensor.fill_(0.5);
    });
    EXPECT_GT(ddp.peak_weight_bytes(), 0);
    ddp.unfuse();
    EXPECT_TRUE(model->weight.eq(0.5).all().item<bool>());
    if (ddp.fuse(optimizer) == FuseMode::Off) ADD_FAILURE() << ddp.fuse_reason();
    ddp.own_weights();
    ddp.unfuse_weights();
    EXPECT_EQ(ddp.fuse_mode(), FuseMode::Off);
  });
}
#pragma GCC diagnostic pop

}  // namespace
}  // namespace lockstep
