// Tests HYBRID_SHARD: a replica of the weights on each host for all of its ranks, and everything else over all ranks.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cinttypes>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/optim/adam.h"
#include "lockstep/parallel/fully_sharded_data_parallel.h"
#include "tests/parallel/fused/fuse_ranks.h"
#include "tests/support/pretended_hosts.h"

namespace lockstep {
namespace {

constexpr int kHybridWidth = 64;

// Two layers, of which units may be made.
torch::nn::Sequential make_hybrid_net() {
  torch::nn::Sequential net;
  for (int i = 0; i < 2; ++i) net->push_back(make_linear(kHybridWidth, kHybridWidth));
  return net;
}

FullyShardOptions hybrid_on(const Group& group, ShardingStrategy strategy = ShardingStrategy::HybridShard) {
  FullyShardOptions options;
  options.process_group = group;
  options.sharding_strategy = strategy;
  options.unit_types = {"Linear"};
  return options;
}

template <typename Wrapped>
void make_hybrid_steps(Wrapped& wrapped, AdamW& optimizer, int rank) {
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    wrapped(fuse_batch(rank, step, kHybridWidth)).pow(2).mean().backward();
    optimizer.step();
  }
}

// Where each rank's first weight lies: an address of this process, of which all ranks are threads.
std::vector<std::int64_t> places_of_weights(const torch::nn::Sequential& model, Communicator& group) {
  const auto own = static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(model->parameters()[0].data_ptr()));
  const at::Tensor all = torch::zeros({group.world_size()}, torch::kLong);
  group.all_gather(all, torch::full({1}, own, torch::kLong));
  return {all.data_ptr<std::int64_t>(), all.data_ptr<std::int64_t>() + all.numel()};
}

std::int64_t elements_of_state(AdamW& optimizer, FullyShardedDataParallel<torch::nn::Sequential>& fsdp) {
  std::int64_t elements = 0;
  for (const auto& [name, state] : optimizer.named_state(fsdp.ddp().named_parameters())) {
    for (const auto& [kind, tensor] : state.tensors) elements += tensor.numel();
  }
  return elements;
}

TEST(HybridShard, HasTheBitsOfPlainStepsWithOneReplicaOnEachHost) {
  run_ranks_as_threads(4, [](const Membership& membership) {
    const Group group = make_communicator("", on_two_hosts(membership));
    for (const auto strategy : {ShardingStrategy::HybridShard, ShardingStrategy::HybridShardZero2}) {
      torch::nn::Sequential hybrid = make_hybrid_net(), plain = make_hybrid_net();
      AdamW of_hybrid(hybrid->parameters(), torch::optim::AdamWOptions(0.01));
      AdamW of_plain(plain->parameters(), torch::optim::AdamWOptions(0.01));
      auto fsdp = fully_shard(hybrid, of_hybrid, hybrid_on(group, strategy));
      DistributedDataParallelOptions as_much = fuse_on(group);
      as_much.bucket_cap_mb = 2;
      DistributedDataParallel ddp(plain, as_much);
      make_hybrid_steps(fsdp, of_hybrid, group->rank());
      make_hybrid_steps(ddp, of_plain, group->rank());
      for (std::size_t i = 0; i < plain->parameters().size(); ++i) {
        EXPECT_TRUE(torch::equal(hybrid->parameters()[i], plain->parameters()[i])) << i;
      }
      const auto at = places_of_weights(hybrid, *group);
      EXPECT_EQ(at[0], at[2]);
      EXPECT_EQ(at[1], at[3]);
      EXPECT_NE(at[0], at[1]) << "each host has a replica";
      EXPECT_EQ(fsdp.peak_weight_bytes(), 0) << "nothing is gathered";
      const std::int64_t all = 2 * 2 * (kHybridWidth * kHybridWidth + kHybridWidth);
      EXPECT_NEAR(static_cast<double>(elements_of_state(of_hybrid, fsdp)), static_cast<double>(all) / 4, 64.0);
      group->barrier();
    }
  });
}

// A rank that is alone on its host has all weights, as shards on a host of one rank are.
TEST(HybridShard, NeedsNoSharedMemoryIfEachHostHasOneRank) {
  run_ranks_as_threads(2, [](const Membership& membership) {
    const Group group = make_communicator("tcp", on_two_hosts(membership));
    torch::nn::Sequential model = make_hybrid_net();
    AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(0.01));
    auto fsdp = fully_shard(model, optimizer, hybrid_on(group));
    EXPECT_EQ(fsdp.ddp().fused_step().mode(), FuseMode::ShardedState);
    make_hybrid_steps(fsdp, optimizer, group->rank());
    group->barrier();
  });
}

// Each rank would have all weights, in memory that nobody has reckoned with.
TEST(HybridShard, IsRefusedWhereEachRankWouldHaveAllWeights) {
  const auto error_with = [](const Group& group, const std::function<void(FuseOptions&)>& change) {
    torch::nn::Sequential model = make_hybrid_net();
    DistributedDataParallel ddp(model, fuse_on(group));
    AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(0.01));
    FuseOptions how;
    how.stage = 2;
    how.hybrid_shard = true;
    change(how);
    const std::string error = fuse_error([&] { ddp.fuse(optimizer, how); });
    EXPECT_EQ(ddp.fused_step().mode(), error == "no error" ? FuseMode::SharedWeights : FuseMode::Off);
    if (error != "no error") {  // and a training may continue without it
      make_hybrid_steps(ddp, optimizer, group->rank());
    }
    return error;
  };
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  run_ranks_as_threads(2, [&](const Membership& membership) {
    has(error_with(make_communicator("tcp", membership), [](FuseOptions&) {}), "the engine shares no memory");
    const Group group = make_communicator("thread", membership);
    EXPECT_EQ(error_with(group, [](FuseOptions&) {}), "no error");
    has(error_with(group, [](FuseOptions& how) { how.share_weights = false; }), "share_weights is false");
    has(error_with(group, [](FuseOptions& how) { how.stage = 3; }), "hybrid_shard needs stage 2");
    has(error_with(group, [](FuseOptions& how) { how.unit_types = {"Linea"}; }), "did you mean");
  });
  run_ranks_as_threads(3, [&](const Membership& membership) {
    const Group group = make_communicator("", on_two_hosts(membership));
    has(error_with(group, [](FuseOptions&) {}), "unequal numbers of ranks");
  });
}

}  // namespace
}  // namespace lockstep
