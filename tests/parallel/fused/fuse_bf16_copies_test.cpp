// Where the bf16 copies of a fused update's weights are, who has one, and when.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/tensor/compute_copy.h"
#include "tests/parallel/fused/copied_model.h"
#include "tests/support/pretended_hosts.h"

namespace lockstep {
namespace {

TEST(FuseBf16, RefusesOtherTypes) {
  fuse_ranks("thread", 1, [](const Group& group) {
    CopiedModel it(group, false);
    it.ddp.fused_step().unfuse();
    FuseOptions options;
    options.compute_dtype = at::kHalf;
    EXPECT_NE(fuse_error([&] { it.ddp.fuse(it.optimizer, options); }).find("compute_dtype is Half"), std::string::npos);
  });
}

// By rank: where its copy of a weight lies, which is an address of this process if ranks are threads.
std::vector<std::int64_t> copies_of_ranks(const at::Tensor& weight, Communicator& group) {
  const torch::NoGradGuard no_grad;
  const at::Tensor copy = compute_copy(weight, at::kBFloat16);
  const at::Tensor all = torch::zeros({group.world_size()}, torch::kLong);
  group.all_gather(all, torch::full({1}, reinterpret_cast<std::int64_t>(copy.data_ptr()), torch::kLong));
  return {all.data_ptr<std::int64_t>(), all.data_ptr<std::int64_t>() + all.numel()};
}

// One copy serves all ranks, and goes when the update goes.
TEST(FuseBf16, CopiesAreSharedAndReleased) {
  fuse_ranks("thread", 2, [](const Group& group) {
    CopiedModel it(group, true);
    it.train(0);
    const torch::NoGradGuard no_grad;
    const at::Tensor weight = it.net->down->parameters()[0];
    const auto at = copies_of_ranks(weight, *group);
    EXPECT_EQ(at[0], at[1]);
    it.ddp.fused_step().unfuse();
    EXPECT_NE(compute_copy(weight, at::kBFloat16).data_ptr(), compute_copy(weight, at::kBFloat16).data_ptr());
  });
}

TEST(FuseBf16, RanksOfOneHostShareACopy) {
  run_ranks_as_threads(4, [&](const Membership& membership) {
    const Group group = make_communicator("", on_two_hosts(membership));
    CopiedModel it(group, true);
    it.train(0);
    const auto at = copies_of_ranks(it.net->query->weight(), *group);
    EXPECT_EQ(at[0], at[2]);
    EXPECT_EQ(at[1], at[3]);
    EXPECT_NE(at[0], at[1]);
  });
}

class FuseBf16OnEngines : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Engines, FuseBf16OnEngines, ::testing::Values("thread"),
                         [](const auto& test) { return std::string(test.param); });
INSTANTIATE_TEST_SUITE_P(EnginesLong, FuseBf16OnEngines, ::testing::Values("shm", "gloo"),
                         [](const auto& test) { return std::string(test.param); });

// The branch is read by one rank, and not before the third step: its weights get a copy then, on all ranks.
TEST_P(FuseBf16OnEngines, GivesWeightsACopyWhenTheyAreRead) {
  fuse_ranks(GetParam(), 2, [](const Group& group) {
    CopiedModel it(group, true);
    const auto has_copy = [&] {
      const torch::NoGradGuard no_grad;
      const at::Tensor weight = it.net->branch->weight(), copy = compute_copy(weight, at::kBFloat16);
      EXPECT_TRUE(torch::equal(copy, weight.detach().to(at::kBFloat16)));
      return copy.data_ptr() == compute_copy(weight, at::kBFloat16).data_ptr();
    };
    const auto train = [&](int step, bool takes_branch) {
      it.optimizer.zero_grad();
      it.ddp(bf16_net_input(group->rank(), step), takes_branch).pow(2).mean().backward();
      it.optimizer.step();
    };
    train(0, false);
    train(1, false);
    train(2, group->rank() == 1);
    EXPECT_TRUE(has_copy());
    train(3, true);
    EXPECT_TRUE(has_copy());
  });
}

// The weights after three updates by four virtual shards.
std::vector<at::Tensor> train_shards_in_bf16(const Group& group, bool publishes) {
  auto net = std::make_shared<Bf16Net>();
  DistributedDataParallelOptions options = fuse_on(group);
  options.virtual_shards = 4;
  if (publishes) options.compute_dtype = at::kBFloat16;
  DistributedDataParallel ddp(net, options);
  SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  EXPECT_NE(ddp.fuse(optimizer).mode(), FuseMode::Off) << ddp.fused_step().reason();
  for (int step = 0; step < 3; ++step) {
    ddp.run_shards(static_cast<std::uint64_t>(step), [&](std::int64_t shard) {
      ddp(bf16_net_input(static_cast<int>(shard), step)).pow(2).mean().backward();
    });
    optimizer.step();
    optimizer.zero_grad();
  }
  std::vector<at::Tensor> weights;
  for (const at::Tensor& parameter : net->parameters()) weights.push_back(parameter.detach().clone());
  const torch::NoGradGuard no_grad;
  const at::Tensor copy = compute_copy(net->query->weight(), at::kBFloat16);
  EXPECT_EQ(copy.data_ptr() == compute_copy(net->query->weight(), at::kBFloat16).data_ptr(), publishes);
  return weights;
}

TEST_P(FuseBf16OnEngines, CopiesChangeNoBitOfVirtualShards) {
  fuse_ranks(GetParam(), 2, [](const Group& group) {
    const auto want = train_shards_in_bf16(group, false), got = train_shards_in_bf16(group, true);
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(torch::equal(got[i], want[i])) << i;
  });
}

// Query, key and value are neighbours, so that their product needs no copy.
TEST(FuseBf16, MatricesOfOneSizeAreNeighbours) {
  fuse_ranks("thread", 1, [](const Group& group) {
    CopiedModel it(group, true);
    it.train(0);
    const torch::NoGradGuard no_grad;
    const Bf16Net& net = *it.net;
    const at::Tensor joined =
        compute_copies_joined({net.query->weight(), net.key->weight(), net.value->weight()}, at::kBFloat16);
    EXPECT_EQ(joined.data_ptr(), compute_copy(net.query->weight(), at::kBFloat16).data_ptr());
    EXPECT_EQ(joined.sizes(), (torch::IntArrayRef{72, 24}));
    EXPECT_TRUE(torch::equal(joined.narrow(0, 24, 24), net.key->weight().to(at::kBFloat16)));
  });
}

}  // namespace
}  // namespace lockstep
