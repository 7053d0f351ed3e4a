// Tests the fused update over hosts with several ranks each: all ranks share the optimizer's state, and the ranks of a
// host share the weights.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/optim/adam.h"
#include "lockstep/optim/sgd.h"
#include "tests/parallel/fused/fuse_ranks.h"
#include "tests/support/pretended_hosts.h"

namespace lockstep {
namespace {

// The weights after some steps, and the number of state elements that this rank keeps per weight.
std::pair<at::Tensor, double> train_on_hosts(const Group& group, bool fused) {
  const torch::nn::Linear model = make_linear(640, 40);
  DistributedDataParallel ddp(model, fuse_on(group));
  Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.01));
  if (fused) {
    const bool equal_hosts = group->world_size() % 2 == 0;
    EXPECT_EQ(ddp.fuse(optimizer).mode(), equal_hosts ? FuseMode::SharedWeights : FuseMode::ShardedState);
  }
  for (int step = 0; step < 5; ++step) {
    for (auto& parameter : model->parameters()) parameter.mutable_grad().reset();
    ddp(fuse_batch(group->rank(), step, 640)).pow(2).mean().backward();
    optimizer.step();
  }
  double elements = 0;
  for (const auto& [name, state] : optimizer.named_state(ddp.named_parameters())) {
    for (const auto& [kind, tensor] : state.tensors) elements += static_cast<double>(tensor.numel());
  }
  return {model->weight.detach().clone(), elements / (640 * 40 + 40)};
}

// Where every rank's weight lies: an address of this process, of which all ranks are threads.
std::vector<std::int64_t> addresses_of(const torch::nn::Linear& model, Communicator& group) {
  const auto own = static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(model->weight.data_ptr()));
  const at::Tensor all = torch::zeros({group.world_size()}, torch::kLong);
  group.all_gather(all, torch::full({1}, own, torch::kLong));
  return {all.data_ptr<std::int64_t>(), all.data_ptr<std::int64_t>() + all.numel()};
}

TEST(FuseOnHosts, KeepsOneCopyOfTheWeightsOnEachHost) {
  run_ranks_as_threads(4, [&](const Membership& membership) {
    const Group group = make_communicator("", on_two_hosts(membership));
    const torch::nn::Linear model = make_linear(640, 40);
    DistributedDataParallel ddp(model, fuse_on(group));
    Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.01));
    ASSERT_EQ(ddp.fuse(optimizer).mode(), FuseMode::SharedWeights);
    ddp(fuse_batch(group->rank(), 0, 640)).pow(2).mean().backward();
    optimizer.step();
    const auto at = addresses_of(model, *group);
    EXPECT_EQ(at[0], at[2]);
    EXPECT_EQ(at[1], at[3]);
    EXPECT_NE(at[0], at[1]);
    ddp.fused_step().unfuse();
    const auto apart = addresses_of(model, *group);
    EXPECT_EQ(std::set<std::int64_t>(apart.begin(), apart.end()).size(), 4U);
  });
}

// Each rank loads the same file: the parameters get other memory, and the next step moves them back to the host's copy.
TEST(FuseOnHosts, TakesUpWeightsThatWereLoaded) {
  run_ranks_as_threads(4, [&](const Membership& membership) {
    const Group group = make_communicator("", on_two_hosts(membership));
    std::vector<at::Tensor> results;
    for (const bool fused : {false, true}) {
      const torch::nn::Linear model = make_linear(640, 40);
      DistributedDataParallel ddp(model, fuse_on(group));
      Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.01));
      if (fused) ddp.fuse(optimizer);
      for (int step = 0; step < 3; ++step) {
        if (step == 1) {
          for (auto& parameter : model->parameters()) parameter.set_data(parameter.detach() * 0.5);
        }
        ddp(fuse_batch(group->rank(), step, 640)).pow(2).mean().backward();
        optimizer.step();
        optimizer.zero_grad();
      }
      results.push_back(model->weight.detach().clone());
    }
    EXPECT_TRUE(torch::equal(results[0], results[1])) << (results[0] - results[1]).abs().max().item<double>();
  });
}

TEST(FuseOnHosts, RefusesWeightsThatDifferBetweenHosts) {
  run_ranks_as_threads(4, [&](const Membership& membership) {
    const Group group = make_communicator("", on_two_hosts(membership));
    const torch::nn::Linear model = make_linear(640, 40);
    DistributedDataParallel ddp(model, fuse_on(group));
    Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.01));
    ddp.fuse(optimizer);
    ddp(fuse_batch(group->rank(), 0, 640)).pow(2).mean().backward();
    optimizer.step();
    optimizer.zero_grad();
    group->barrier();
    {
      const torch::NoGradGuard no_grad;
      if (group->rank() == 1) model->weight.mul_(0.5);  // of only one host
    }
    group->barrier();
    ddp(fuse_batch(group->rank(), 1, 640)).pow(2).mean().backward();
    const std::string error = fuse_error([&] { optimizer.step(); });
    EXPECT_NE(error.find("parameter \"weight\" was written after the last step, and rank 1"), std::string::npos)
        << error;
  });
}

TEST(FuseOnHosts, SharesOutTheStateAndTrainsAsWithout) {
  for (const int ranks : {3, 4}) {
    run_ranks_as_threads(ranks, [&](const Membership& membership) {
      const Group group = make_communicator("", on_two_hosts(membership));
      EXPECT_STREQ(group->engine(), "hierarchical");
      const auto [plain, all_of_the_state] = train_on_hosts(group, false);
      const auto [fused, share] = train_on_hosts(group, true);
      EXPECT_TRUE(torch::equal(plain, fused)) << ranks << " ranks: " << (plain - fused).abs().max().item<double>();
      at::Tensor of_rank_0 = fused.clone();
      group->broadcast(of_rank_0);
      EXPECT_TRUE(torch::equal(of_rank_0, fused));
      EXPECT_DOUBLE_EQ(all_of_the_state, 2);
      EXPECT_NEAR(share, 2.0 / group->world_size(), 0.02);
    });
  }
}

// Without `fuse`, flags behind the gradients make the bucket's message longer: too long for the way that small messages
// take. The gradients alone are just short enough for it.
TEST(FuseOnHosts, TrainsAsWithoutWhereSmallMessagesEnd) {
  run_ranks_as_threads(4, [&](const Membership& membership) {
    const Group group = make_communicator("", on_two_hosts(membership));
    std::vector<at::Tensor> results;
    for (const bool fused : {false, true}) {
      const torch::nn::Linear model = make_linear(127, 128);  // 64 KiB on each of four ranks
      DistributedDataParallel ddp(model, fuse_on(group));
      SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.01));
      if (fused) {
        ASSERT_EQ(ddp.fuse(optimizer).mode(), FuseMode::SharedWeights);
      }
      for (int step = 0; step < 3; ++step) {
        for (auto& parameter : model->parameters()) parameter.mutable_grad().reset();
        ddp(fuse_batch(group->rank(), step, 127)).pow(2).mean().backward();
        optimizer.step();
      }
      results.push_back(model->weight.detach().clone());
    }
    EXPECT_TRUE(torch::equal(results[0], results[1])) << (results[0] - results[1]).abs().max().item<double>();
  });
}

// Ranks run out of batches at different times, and none of them at the same number of steps.
TEST(FuseOnHosts, JoinsAsWithoutFuse) {
  run_ranks_as_processes(4, [&](const Membership& membership) {
    const Group group = make_communicator("", on_two_hosts(membership));
    std::vector<at::Tensor> results;
    for (const bool fused : {false, true}) {
      const torch::nn::Linear model = make_linear(640, 40);
      DistributedDataParallel ddp(model, fuse_on(group));
      Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.01));
      if (fused) {
        ASSERT_EQ(ddp.fuse(optimizer).mode(), FuseMode::SharedWeights);
      }
      const auto take_step = [&](int step) {
        for (auto& parameter : model->parameters()) parameter.mutable_grad().reset();
        ddp(fuse_batch(group->rank(), step, 640)).pow(2).mean().backward();
        optimizer.step();
      };
      take_step(0);
      ddp.join([&] {
        for (int step = 0; step < 2 * group->rank(); ++step) take_step(step);
      });
      for (int step = 0; step < 3; ++step) take_step(step);
      results.push_back(model->weight.detach().clone());
    }
    EXPECT_TRUE(torch::allclose(results[0], results[1], 1e-5, 1e-7))
        << (results[0] - results[1]).abs().max().item<double>();
    at::Tensor of_rank_0 = results[1].clone();
    group->broadcast(of_rank_0);
    EXPECT_TRUE(torch::equal(of_rank_0, results[1]));
  });
}

// The weights after `last - first` steps on data that is the same for all ranks, and the state then.
std::pair<std::vector<at::Tensor>, NamedState> continue_on_hosts(const Group& group, bool fused,
                                                                 const std::vector<at::Tensor>& weights,
                                                                 const NamedState& saved, int first, int last) {
  const torch::nn::Linear model = make_linear(640, 40);
  DistributedDataParallel ddp(model, fuse_on(group));
  Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.01));
  if (fused) {
    EXPECT_NE(ddp.fuse(optimizer).mode(), FuseMode::Off);
  }
  if (!weights.empty()) {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < weights.size(); ++i) model->parameters()[i].copy_(weights[i]);
    optimizer.load_named_state(ddp.named_parameters(), saved);
    group->barrier();
  }
  for (int step = first; step < last; ++step) {
    for (auto& parameter : model->parameters()) parameter.mutable_grad().reset();
    ddp(fuse_batch(0, step, 640)).pow(2).mean().backward();
    optimizer.step();
  }
  std::vector<at::Tensor> ends;
  for (const auto& parameter : model->parameters()) ends.push_back(parameter.detach().clone());
  return {ends, ddp.optimizer_state(optimizer)};
}

TEST(FuseOnHosts, ContinuesWithAnotherNumberOfRanks) {
  std::vector<at::Tensor> weights;
  NamedState saved;
  run_ranks_as_threads(4, [&](const Membership& membership) {
    const Group group = make_communicator("", on_two_hosts(membership));
    auto [ends, state] = continue_on_hosts(group, true, {}, {}, 0, 3);
    ASSERT_TRUE(state.at("weight").is_whole());
    if (group->rank() == 0) {
      weights = std::move(ends);
      saved = std::move(state);
    }
    group->barrier();
  });
  for (const int ranks : {1, 2, 3, 6}) {
    run_ranks_as_threads(ranks, [&](const Membership& membership) {
      const Group group = make_communicator("", ranks > 2 ? on_two_hosts(membership) : membership);
      const auto plain = continue_on_hosts(group, false, weights, saved, 3, 6).first;
      const auto fused = continue_on_hosts(group, true, weights, saved, 3, 6).first;
      for (std::size_t i = 0; i < plain.size(); ++i) {
        EXPECT_TRUE(torch::allclose(plain[i], fused[i], 1e-5, 1e-7)) << ranks << " ranks, parameter " << i;
      }
    });
  }
}

// The memory of the mappings that `tensor` lies in, as the kernel counts it for this process: a page that R processes
// have touched counts 1/R in each. Negative if it does not say.
std::int64_t proportional_bytes_of(const at::Tensor& tensor) {
  const auto begin = reinterpret_cast<std::uintptr_t>(tensor.data_ptr());
  const std::uintptr_t end = begin + tensor.nbytes();
  std::ifstream mappings("/proc/self/smaps");
  std::int64_t bytes = -1;
  bool is_inside = false;
  for (std::string line; std::getline(mappings, line);) {
    std::uintptr_t from = 0;
    std::uintptr_t to = 0;
    std::int64_t kib = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2) {
      is_inside = from < end && begin < to;
    } else if (is_inside && std::sscanf(line.c_str(), "Pss: %" SCNd64 " kB", &kib) == 1) {
      bytes = std::max<std::int64_t>(bytes, 0) + kib * 1024;
    }
  }
  return bytes;
}

TEST(FuseOnHosts, HoldsTheBytesOfOneCopyOnEachHost) {
  if (proportional_bytes_of(torch::ones({1})) < 0) GTEST_SKIP() << "the kernel has no /proc/self/smaps";
  constexpr int kWidth = 1024;
  run_ranks_as_processes(4, [&](const Membership& membership) {
    const Group group = make_communicator("", on_two_hosts(membership));
    const torch::nn::Linear model = make_linear(kWidth, kWidth);
    DistributedDataParallel ddp(model, fuse_on(group));
    SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.01));
    ASSERT_EQ(ddp.fuse(optimizer).mode(), FuseMode::SharedWeights);
    ddp(fuse_batch(group->rank(), 0, kWidth)).pow(2).mean().backward();
    optimizer.step();
    EXPECT_TRUE(model->weight.isfinite().all().item<bool>());  // reads every page
    group->barrier();
    at::Tensor sum = torch::full({1}, proportional_bytes_of(model->weight), torch::kLong);
    group->all_reduce(sum);
    const double of_one_copy = 4.0 * kWidth * kWidth;
    EXPECT_NEAR(sum.item<double>(), 2 * of_one_copy, 0.05 * of_one_copy) << "one copy on each of two hosts";
    group->barrier();
  });
}

}  // namespace
}  // namespace lockstep
