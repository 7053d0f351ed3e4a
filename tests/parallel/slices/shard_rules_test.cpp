// Tests what a shard is computed with, and what virtual shards refuse.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <cstdint>
#include <set>
#include <stdexcept>

#include "lockstep/base/error.h"
#include "lockstep/comm/factory.h"
#include "lockstep/optim/clip_grad_norm.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "tests/parallel/fused/fuse_ranks.h"
#include "tests/parallel/slices/lone_group.h"

namespace lockstep {
namespace {

using torch::optim::SGDOptions;

DistributedDataParallelOptions with_shards(std::int64_t shards, Group group = lone_group()) {
  DistributedDataParallelOptions options;
  options.process_group = std::move(group);
  options.virtual_shards = shards;
  return options;
}

TEST(ShardRules, GradientsAreTheAverageOverShards) {
  torch::nn::Linear model = make_linear(1, 1);
  DistributedDataParallel ddp(model, with_shards(4));
  EXPECT_EQ(ddp.shards(), (ShardRange{0, 4}));
  for (int step = 0; step < 2; ++step) {  // the second time, earlier gradients are replaced
    ddp.run_shards(0, [&](std::int64_t shard) {
      if (shard == 2) return;  // without samples
      ddp(torch::full({1, 1}, static_cast<float>(shard + 1))).sum().backward();
    });
    EXPECT_EQ(model->weight.grad().item<float>(), (1 + 2 + 4) / 4.0F);
    EXPECT_EQ(model->bias.grad().item<float>(), 3 / 4.0F);
  }
}

TEST(ShardRules, RandomNumbersAreAFunctionOfUpdateAndShard) {
  torch::nn::Linear model = make_linear(2, 2);
  DistributedDataParallel ddp(model, with_shards(3));
  const auto draw = [&](std::uint64_t update, std::int64_t wanted) {
    torch::Tensor result;
    ddp.run_shards(update, [&](std::int64_t shard) {
      EXPECT_EQ(at::get_num_threads(), 1);
      const torch::Tensor drawn = torch::rand({3});
      if (shard == wanted) result = drawn;
    });
    return result;
  };
  std::set<float> all;
  for (std::uint64_t update = 0; update < 3; ++update) {
    for (std::int64_t shard = 0; shard < 3; ++shard) {
      const torch::Tensor first = draw(update, shard);
      torch::rand({5});  // outside, which changes nothing
      EXPECT_TRUE(first.equal(draw(update, shard)));
      all.insert(first[0].item<float>());
    }
  }
  EXPECT_EQ(all.size(), 9);
}

TEST(ShardRules, RunningAveragesAreTheMeanOverShardsWithSamples) {
  torch::nn::BatchNorm1d model(1);
  DistributedDataParallel ddp(model, with_shards(4));
  ddp.run_shards(0, [&](std::int64_t shard) {
    if (shard == 3) return;
    // Means 1, 2 and 6; variances 2, 8 and 0, of two samples each.
    const float mean = shard == 0 ? 1 : shard == 1 ? 2 : 6, half = shard == 0 ? 1 : shard == 1 ? 2 : 0;
    ddp(torch::tensor({{mean - half}, {mean + half}})).sum().backward();
  });
  EXPECT_FLOAT_EQ(model->running_mean.item<float>(), 0.1F * (1 + 2 + 6) / 3);
  EXPECT_FLOAT_EQ(model->running_var.item<float>(), 0.9F + 0.1F * (2 + 8 + 0) / 3);
  EXPECT_EQ(model->num_batches_tracked.item<std::int64_t>(), 1);
}

// A rank that catches an exception and leaves its update out would add gradients of the next one to the others'.
template <typename Ddp>
void run_other_update(const Group& group, Ddp& ddp) {
  const std::uint64_t update = 7 + (group->rank() == 0 ? std::uint64_t{1} << 40 : 0);
  ddp.run_shards(update, [&](std::int64_t) { ddp(torch::ones({2, 1})).sum().backward(); });
}

void expect_update_difference(const std::string& text) {
  EXPECT_NE(text.find("ranks are in different updates of run_shards"), std::string::npos) << text;
  EXPECT_NE(text.find(" 7 and 1099511627783 elsewhere"), std::string::npos) << text;
}

TEST(ShardRules, RanksInDifferentUpdatesAreNamed) {
  fuse_ranks("thread", 2, [](const Group& group) {
    torch::nn::Linear model = make_linear(1, 1);
    DistributedDataParallel ddp(model, with_shards(2, group));
    expect_update_difference(fuse_error([&] { run_other_update(group, ddp); }));
    ddp.run_shards(9, [&](std::int64_t) { ddp(torch::ones({1, 1})).sum().backward(); });  // they may continue
    EXPECT_EQ(model->weight.grad().item<float>(), 1);
  });
}

TEST(ShardRules, RanksInDifferentUpdatesAreNamedByAFusedStep) {
  fuse_ranks("thread", 2, [](const Group& group) {
    torch::nn::Linear model = make_linear(1, 1);
    DistributedDataParallel ddp(model, with_shards(2, group));
    SGD optimizer(model->parameters(), SGDOptions(0.1));
    ASSERT_NE(ddp.fuse(optimizer).mode(), FuseMode::Off) << ddp.fused_step().reason();
    const torch::Tensor before = model->weight.detach().clone();
    run_other_update(group, ddp);  // sends nothing
    expect_update_difference(fuse_error([&] { clip_grad_norm_(optimizer, 1.0); }));
    expect_update_difference(fuse_error([&] { optimizer.step(); }));
    EXPECT_TRUE(torch::equal(model->weight, before));
  });
}

TEST(ShardRules, RanksInDifferentUpdatesMixNoBuffers) {
  for (const bool fused : {false, true}) {
    fuse_ranks("thread", 2, [fused](const Group& group) {
      torch::nn::BatchNorm1d model(1);
      DistributedDataParallel ddp(model, with_shards(2, group));
      SGD optimizer(model->parameters(), SGDOptions(0.1));
      if (fused) {
        ASSERT_NE(ddp.fuse(optimizer).mode(), FuseMode::Off) << ddp.fused_step().reason();
      }
      expect_update_difference(fuse_error([&] { run_other_update(group, ddp); }));
      EXPECT_EQ(model->running_mean.item<float>(), 0);
      EXPECT_EQ(model->num_batches_tracked.item<std::int64_t>(), 0);
    });
  }
}

// LibTorch fuses operators of a script after its first forwards, which are other shards on another number of ranks.
at::Tensor script_after_shards(const Group& group) {
  torch::jit::Module model("scripted");
  const at::Tensor start = torch::linspace(-1, 1, 600).view({20, 30});
  model.register_parameter("weight", start.clone().requires_grad_(), false);
  model.define(
      "def forward(self, x):\n"
      "  y = torch.mm(x, self.weight)\n"
      "  y = torch.dropout(y, 0.2, True)\n"
      "  return torch.sigmoid(y * 1.7 + y.exp() / 3.0) * torch.tanh(y) + torch.erf(y)\n");
  DistributedDataParallel ddp(model, with_shards(4, group));
  at::Tensor weight = model.attr("weight").toTensor();
  for (std::uint64_t update = 0; update < 4; ++update) {
    ddp.run_shards(update, [&](std::int64_t shard) {
      EXPECT_FALSE(torch::jit::getGraphExecutorOptimize());
      const auto rows = static_cast<std::int64_t>(update) + shard + 1;
      ddp(torch::linspace(-1, 1, 20 * rows).view({rows, 20})).toTensor().sum().backward();
    });
    const torch::NoGradGuard no_grad;
    weight.sub_(weight.grad(), 0.05);
  }
  EXPECT_FALSE(weight.detach().equal(start));
  return weight.detach().clone();
}

TEST(ShardRules, AScriptHasTheSameBitsOnAnyNumberOfRanks) {
  const at::Tensor want = script_after_shards(lone_group());
  EXPECT_TRUE(torch::jit::getGraphExecutorOptimize()) << "as before run_shards";
  for (const int ranks : {2, 4}) {
    run_ranks_as_processes(ranks, [&](const Membership& membership) {
      EXPECT_TRUE(script_after_shards(make_communicator("shm", membership)).equal(want)) << ranks;
    });
  }
}

// A program may catch what a shard throws and continue with the next update: the failed one leaves no trace.
TEST(ShardRules, AnExceptionLeavesTheBuffersOfTheLastUpdate) {
  torch::nn::BatchNorm1d model(1);
  DistributedDataParallel ddp(model, with_shards(2));
  const auto throwing = [&] {
    ddp.run_shards(0, [&](std::int64_t shard) {
      ddp(torch::tensor({{1.0F}, {3.0F}})).sum().backward();
      if (shard == 1) throw std::runtime_error("from a shard");
    });
  };
  EXPECT_THROW(throwing(), std::runtime_error);
  EXPECT_EQ(model->running_mean.item<float>(), 0);
  EXPECT_EQ(model->running_var.item<float>(), 1);
}

void expect_shard_refusal(const std::function<void()>& body, const std::string& what) {
  const std::string text = fuse_error(body);
  EXPECT_NE(text.find(what), std::string::npos) << text;
}

TEST(ShardRules, WrappingRefusesWhatCannotBeKeptExact) {
  torch::nn::Linear model = make_linear(2, 2);
  const auto wrap = [&](const DistributedDataParallelOptions& options) {
    return [&, options] { DistributedDataParallel ddp(model, options); };
  };
  expect_shard_refusal(wrap(with_shards(-1)), "-1 virtual shards are too few for 1 ranks");
  DistributedDataParallelOptions options = with_shards(2);
  options.static_graph = true;
  expect_shard_refusal(wrap(options), "static_graph");
  options = with_shards(2);
  options.broadcast_buffers = false;
  expect_shard_refusal(wrap(options), "broadcast_buffers = false");
  options = with_shards(2);
  options.parameters_and_buffers_to_ignore = {"bias"};
  expect_shard_refusal(wrap(options), "\"bias\", which is ignored");
  torch::nn::Embedding table(torch::nn::EmbeddingOptions(3, 2).sparse(true));
  expect_shard_refusal([&] { DistributedDataParallel ddp(table, with_shards(2)); }, "sparse gradients");
  torch::nn::Linear half = make_linear(2, 2);
  half->to(torch::kBFloat16);
  expect_shard_refusal([&] { DistributedDataParallel ddp(half, with_shards(2)); }, "is of type BFloat16");
  torch::nn::BatchNorm1d norm(2);
  norm->to(torch::kDouble);
  expect_shard_refusal([&] { DistributedDataParallel ddp(norm, with_shards(2)); },
                       "buffer \"running_mean\" is of type Double");
}

TEST(ShardRules, CallsThatKnowNoShardsAreRefused) {
  torch::nn::Linear model = make_linear(2, 2);
  DistributedDataParallel ddp(model, with_shards(2));
  expect_shard_refusal([&] { ddp(torch::ones({1, 2})); }, "forward was called outside of run_shards");
  {
    const torch::NoGradGuard no_grad;
    ddp(torch::ones({1, 2}));  // evaluation
  }
  expect_shard_refusal([&] { ddp.join([] {}); }, "virtual shards cannot be combined with join");
  expect_shard_refusal([&] { ddp.follow_backward(); }, "virtual shards cannot be combined with follow_backward");
  expect_shard_refusal([&] { ddp.register_comm_hook(make_communication_hook("bf16")); }, "a communication hook");
  torch::nn::Linear plain = make_linear(2, 2);
  DistributedDataParallelOptions options;
  options.process_group = lone_group();
  DistributedDataParallel without(plain, options);
  expect_shard_refusal([&] { without.run_shards(0, [](std::int64_t) {}); }, "run_shards needs virtual shards");
  EXPECT_EQ(without.shards().size(), 0);
}

struct FusedShards {
  torch::nn::Linear model = make_linear(2, 2);
  DistributedDataParallel<torch::nn::Linear> ddp;
  SGD optimizer;
  explicit FusedShards(const Group& group)
      : ddp(model, with_shards(3, group)), optimizer(model->parameters(), SGDOptions(0.1)) {
    EXPECT_NE(ddp.fuse(optimizer).mode(), FuseMode::Off) << ddp.fused_step().reason();
  }
  void run() {
    ddp.run_shards(0, [&](std::int64_t shard) { ddp(torch::full({1, 2}, 1.0F + shard)).sum().backward(); });
  }
};

TEST(ShardRules, AFusedStepNeedsTheSumsOfRunShards) {
  fuse_ranks("thread", 2, [](const Group& group) {
    const std::string fault = "is not what run_shards left";
    {
      FusedShards before(group);
      expect_shard_refusal([&] { before.optimizer.step(); }, fault);
    }
    FusedShards fused(group);
    fused.run();
    fused.optimizer.step();
    expect_shard_refusal([&] { fused.optimizer.step(); }, fault);  // a second step with one pass
    fused.run();
    if (group->rank() == 1) fused.model->weight.mutable_grad().mul_(2);
    expect_shard_refusal([&] { fused.optimizer.step(); }, fault);
    fused.run();
    expect_shard_refusal([&] { clip_grad_norm_(fused.optimizer, 1.0, 1.0); },
                         "the norm of order 1 cannot be used with virtual shards");
    fused.optimizer.step();  // all ranks had the same error, so they go on
  });
}

TEST(ShardRules, WhatCannotBeFusedSaysWhy) {
  torch::nn::Linear model = make_linear(2, 2);
  DistributedDataParallelOptions small_buckets = with_shards(2);
  small_buckets.bucket_cap_mb = 1e-5;  // a bucket for each parameter
  DistributedDataParallel ddp(model, small_buckets);
  SGD of_bias({model->bias}, SGDOptions(0.1));
  EXPECT_EQ(ddp.fuse(of_bias).mode(), FuseMode::Off);
  EXPECT_NE(ddp.fused_step().reason().find("all of the module's gradients must be fused"), std::string::npos);
  SGD optimizer(model->parameters(), SGDOptions(0.1));
  FuseOptions options;
  options.gradient_dtype = torch::kBFloat16;
  EXPECT_EQ(ddp.fuse(optimizer, options).mode(), FuseMode::Off);
  EXPECT_NE(ddp.fused_step().reason().find("gradient_dtype is BFloat16"), std::string::npos);
  options.gradient_dtype = torch::kFloat;
  options.stage = 2;
  EXPECT_EQ(ddp.fuse(optimizer, options).mode(), FuseMode::Off);
  EXPECT_NE(ddp.fused_step().reason().find("virtual shards cannot be combined with stage 2"), std::string::npos);
}

}  // namespace
}  // namespace lockstep
