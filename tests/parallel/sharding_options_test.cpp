// Tests that whoever asks ranks to share out a model says it in the same way.
#include <gtest/gtest.h>

#include <string>

#include "lockstep/detail/parallel/sharding_options.h"
#include "lockstep/optim/adam.h"
#include "lockstep/parallel/fully_sharded_data_parallel.h"
#include "tests/parallel/fused/fuse_ranks.h"

namespace lockstep {
namespace {

struct StrategyCase {
  ShardingStrategy strategy;
  const char* name;
  int stage;
  bool hybrid;
  friend std::ostream& operator<<(std::ostream& out, const StrategyCase& c) { return out << c.name; }
};

class EachStrategy : public ::testing::TestWithParam<StrategyCase> {};

TEST_P(EachStrategy, HasItsNameInFsdpAndItsStageInZero) {
  EXPECT_STREQ(to_string(GetParam().strategy), GetParam().name);
  EXPECT_EQ(stage_of(GetParam().strategy), GetParam().stage);
  EXPECT_EQ(is_hybrid(GetParam().strategy), GetParam().hybrid);
}

INSTANTIATE_TEST_SUITE_P(Table, EachStrategy,
                         ::testing::Values(StrategyCase{ShardingStrategy::NoShard, "no_shard", 1, false},
                                           StrategyCase{ShardingStrategy::ShardGradOp, "shard_grad_op", 2, false},
                                           StrategyCase{ShardingStrategy::FullShard, "full_shard", 3, false},
                                           StrategyCase{ShardingStrategy::HybridShard, "hybrid_shard", 2, true},
                                           StrategyCase{ShardingStrategy::HybridShardZero2, "hybrid_shard_zero2", 2,
                                                        true}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(ShardingOptionsOfFuse, SayTheStageByTheStrategy) {
  fuse_ranks("gloo", 2, [](const Group& group) {
    for (const ShardingStrategy strategy :
         {ShardingStrategy::NoShard, ShardingStrategy::ShardGradOp, ShardingStrategy::FullShard}) {
      const torch::nn::Linear model = make_linear(64, 32);
      DistributedDataParallel ddp(model, fuse_on(group));
      Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.1));
      FuseOptions how;
      EXPECT_EQ(how.sharding_strategy, ShardingStrategy::NoShard);
      how.sharding_strategy = strategy;
      const FusedStep fused = ddp.fuse(optimizer, how);
      EXPECT_EQ(fused.weight_parts().empty(), strategy != ShardingStrategy::FullShard) << to_string(strategy);
      ddp(fuse_batch(group->rank(), 0, 64)).sum().backward();
      EXPECT_EQ(fused.has_sent_gradients(), strategy != ShardingStrategy::NoShard) << to_string(strategy);
      optimizer.step();
      fused.unfuse();
    }
  });
}

TEST(ShardingOptionsOfFuse, RefuseAStageThatTheStrategyIsNot) {
  fuse_ranks("thread", 1, [](const Group& group) {
    const torch::nn::Linear model = make_linear(8, 4);
    DistributedDataParallel ddp(model, fuse_on(group));
    Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.1));
    FuseOptions how;
    how.sharding_strategy = ShardingStrategy::ShardGradOp;
    how.stage = 3;
    const std::string error = fuse_error([&] { ddp.fuse(optimizer, how); });
    EXPECT_NE(error.find("stage is 3, and sharding_strategy shard_grad_op is stage 2"), std::string::npos) << error;
    how.stage = 2;
    EXPECT_EQ(ddp.fuse(optimizer, how).mode(), FuseMode::SharedWeights);
  });
}

TEST(ShardingOptionsOfFullyShard, RefuseToShareOutNothing) {
  fuse_ranks("thread", 1, [](const Group& group) {
    const torch::nn::Linear model = make_linear(8, 4);
    Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.1));
    FullyShardOptions options;
    options.process_group = group;
    EXPECT_EQ(options.sharding_strategy, ShardingStrategy::FullShard);
    options.sharding_strategy = ShardingStrategy::NoShard;
    const std::string error = fuse_error([&] { fully_shard(model, optimizer, options); });
    EXPECT_NE(error.find("sharding_strategy is NoShard"), std::string::npos) << error;
  });
}

}  // namespace
}  // namespace lockstep
