// Tests virtual shards in a Trainer: what they compute, with its other options, and what is refused.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/factory.h"
#include "lockstep/parallel/sync_batch_norm.h"
#include "lockstep/train/trainer.h"
#include "tests/support/ranks.h"
#include "tests/train/token_training.h"

namespace lockstep {
namespace {

// Independent of the tree: with dropout off, a training with V shards is one of V ranks, but for rounding.
TEST(VirtualShardsOfTokens, TrainLikeAsManyRanks) {
  const auto weights = [](std::int64_t shards, const std::shared_ptr<Communicator>& group) {
    TokenTraining training(26);
    training.options.process_group = group;
    training.options.args.virtual_shards = shards;
    Trainer(training.options).train();
    return flat_weights(*training.net);
  };
  const at::Tensor got = weights(4, nullptr);
  run_ranks_as_threads(4, [&](const Membership& membership) {
    const at::Tensor want = weights(0, make_communicator("thread", membership));
    EXPECT_TRUE(got.allclose(want, 1e-4, 1e-6));
    EXPECT_FALSE(got.equal(flat_weights(*make_token_net())));
  });
}

// Batches of different lengths, smoothed labels, dropout of LibTorch, and a schedule that follows evaluations.
TEST(VirtualShardsOfTokens, HaveTheSameBitsInAnyOrderAndSchedule) {
  const auto weights = [](const std::shared_ptr<Communicator>& group) {
    TokenTraining training(26);
    const auto net = make_token_net(0.3);
    training.options.model = adapt_token_net(net);
    training.options.process_group = group;
    training.options.lengths = TokenTaskDataset(26).lengths();
    TrainingArguments& args = training.options.args;
    args.virtual_shards = 5;
    args.num_train_epochs = 3;
    args.group_by_length = true;
    args.label_smoothing_factor = 0.1;
    args.eval_strategy = "epoch";
    args.lr_scheduler_type = "reduce_lr_on_plateau";
    args.lr_scheduler_kwargs = {{"patience", 0}, {"threshold", 0.5}};  // each evaluation counts
    Trainer(training.options).train();
    return flat_weights(*net);
  };
  const at::Tensor want = weights(nullptr);
  for (const int ranks : {2, 3, 5}) {
    run_ranks_as_threads(ranks, [&](const Membership& membership) {
      EXPECT_TRUE(weights(make_communicator("thread", membership)).equal(want)) << ranks;
    });
  }
}

std::string shard_refusal(TokenTraining& training) {
  try {
    Trainer(training.options).train();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// Without virtual shards, too, ranks refuse to be one process each.
TEST(VirtualShardsRefusals, NameOneProcessInAJobOfRanks) {
  run_ranks_as_threads(2, [](const Membership& membership) {
    TokenTraining training;
    training.options.process_group = make_communicator("thread", membership);
    training.options.args.virtual_shards = 4;
    training.options.args.parallel_mode = "single";
    const std::string text = shard_refusal(training);
    EXPECT_NE(text.find("parallel_mode single in a job of 2 ranks"), std::string::npos) << text;
  });
}

TEST(VirtualShardsRefusals, NameWhatCannotKeepItsBits) {
  {
    TokenTraining training;
    training.options.args.virtual_shards = 4;
    training.options.args.gradient_accumulation_steps = 2;
    EXPECT_NE(shard_refusal(training).find("virtual_shards 4 cannot be combined with gradient_accumulation_steps 2"),
              std::string::npos);
  }
  {
    TokenTraining training;
    training.options.args.virtual_shards = 4;
    training.options.args.replicas = 2;
    EXPECT_NE(shard_refusal(training).find("virtual_shards cannot be combined with parallel_mode auto and 2 replicas"),
              std::string::npos);
  }
  {
    TokenTraining training;
    training.options.args.virtual_shards = 4;
    training.options.args.ddp_broadcast_buffers = false;
    EXPECT_NE(shard_refusal(training).find("broadcast_buffers = false"), std::string::npos);
  }
  {
    TokenTraining training;
    training.net->register_module("sync", SyncBatchNorm(4));
    training.options.args.virtual_shards = 4;
    EXPECT_NE(shard_refusal(training).find("SyncBatchNorm"), std::string::npos);
  }
  {
    TokenTraining training;
    training.options.args.virtual_shards = 4;
    training.options.args.fsdp = std::vector<std::string>{"shard_grad_op"};
    EXPECT_NE(shard_refusal(training).find("virtual_shards 4 cannot be combined with fsdp shard_grad_op"),
              std::string::npos);
  }
  run_ranks_as_threads(2, [&](const Membership& membership) {
    TokenTraining training;
    training.options.process_group = make_communicator("thread", membership);
    training.options.args.virtual_shards = 1;
    EXPECT_NE(shard_refusal(training).find("virtual_shards 1 is too small for 2 ranks"), std::string::npos);
  });
}

TEST(VirtualShardsRefusals, ACheckpointOfAnotherNumberOfShards) {
  TokenTraining training;
  training.options.args.virtual_shards = 4;
  training.options.args.save_strategy = "epoch";
  EXPECT_EQ(shard_refusal(training), "no error");
  training.options.args.virtual_shards = 2;
  training.options.args.num_train_epochs = 2;
  training.options.args.resume_from_checkpoint = "true";
  EXPECT_NE(shard_refusal(training).find("virtual_shards is 2, but 4 in the checkpoint"), std::string::npos);
  training.options.args.virtual_shards = 0;
  EXPECT_NE(shard_refusal(training).find("virtual_shards is 0, but 4 in the checkpoint"), std::string::npos);
}

}  // namespace
}  // namespace lockstep
