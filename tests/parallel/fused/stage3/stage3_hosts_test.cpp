// Tests of weights in shards over hosts with several ranks (stage 3): a layer lies once on each host, for all its
// ranks, if the hosts have equally many; otherwise each rank gathers for itself.
#include <gtest/gtest.h>
#include <signal.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/optim/adam.h"
#include "tests/parallel/fused/fuse_ranks.h"
#include "tests/parallel/fused/stage3/stage3.h"
#include "tests/support/pretended_hosts.h"

namespace lockstep {
namespace {

constexpr int kHostLayers = 5;
constexpr int kHostWidth = 48;  // a matrix is longer than a page

struct HostNetImpl : torch::nn::Module {
  HostNetImpl() {
    layers = register_module("layers", torch::nn::ModuleList());
    for (int i = 0; i < kHostLayers; ++i) layers->push_back(make_linear(kHostWidth, kHostWidth));
  }
  torch::Tensor forward(torch::Tensor x) {
    for (int i = 0; i < kHostLayers; ++i) {
      x = torch::tanh(linear(i)->forward(x));
      if (after_layer) after_layer(i);
    }
    return x;
  }
  torch::nn::LinearImpl* linear(int i) { return layers[static_cast<std::size_t>(i)]->as<torch::nn::Linear>(); }
  torch::nn::ModuleList layers{nullptr};
  std::function<void(int)> after_layer;
};
TORCH_MODULE(HostNet);

struct HostSubject {
  HostSubject(const Group& group, bool fuses, bool reshards = true) : ddp(model, buckets_of_a_parameter(group)) {
    if (!fuses) return;
    FuseOptions how;
    how.stage = 3;
    how.reshard_after_forward = reshards;
    EXPECT_EQ(ddp.fuse(optimizer, how).mode(), FuseMode::ShardedState) << ddp.fused_step().reason();
    EXPECT_GT(ddp.fused_step().peak_weight_bytes(), 0);
  }
  void step(int rank, int number) {
    optimizer.zero_grad();
    ddp(fuse_batch(rank, number, kHostWidth)).pow(2).mean().backward();
    optimizer.step();
  }
  std::vector<at::Tensor> weights() { return gathered_weights(ddp); }

  HostNet model;
  DistributedDataParallel<HostNet> ddp;
  AdamW optimizer{model->parameters(), torch::optim::AdamWOptions(0.01)};
};

struct HostRanks {
  std::vector<int> of_each;
  bool processes;

  int ranks() const { return std::accumulate(of_each.begin(), of_each.end(), 0); }
  bool are_equal() const {
    return std::all_of(of_each.begin(), of_each.end(), [&](int n) { return n == of_each[0]; });
  }
  Membership place(Membership membership) const {
    return are_equal() ? on_hosts(std::move(membership), static_cast<int>(of_each.size()))
                       : on_hosts_of(std::move(membership), of_each);
  }
};

class Stage3OnHosts : public ::testing::TestWithParam<HostRanks> {
 protected:
  static void run(const std::function<void(const Group&)>& body) {
    const HostRanks& how = GetParam();
    const auto rank = [&](const Membership& membership) { body(make_communicator("", how.place(membership))); };
    how.processes ? run_ranks_as_processes(how.ranks(), rank) : run_ranks_as_threads(how.ranks(), rank);
  }
};

INSTANTIATE_TEST_SUITE_P(Ranks, Stage3OnHosts,
                         ::testing::Values(HostRanks{{2, 2}, true}, HostRanks{{3, 3}, true}, HostRanks{{2, 2, 2}, true},
                                           HostRanks{{2, 2}, false}, HostRanks{{2, 1}, true}, HostRanks{{1, 3}, true},
                                           HostRanks{{1, 2, 2}, false}),
                         [](const auto& test) {
                           std::string name = "with";
                           for (const int ranks : test.param.of_each) name += "_" + std::to_string(ranks);
                           return name + (test.param.processes ? "_as_processes" : "_as_threads");
                         });

TEST_P(Stage3OnHosts, HasTheBitsOfPlainSteps) {
  run([](const Group& group) {
    for (const bool reshards : {true, false}) {
      HostSubject sharded(group, true, reshards), plain(group, false);
      for (int step = 0; step < 4; ++step) {
        std::vector<at::Tensor> outputs;
        for (HostSubject* each : {&sharded, &plain}) {
          each->step(group->rank(), step);
          const torch::NoGradGuard no_grad;
          outputs.push_back(each->ddp(fuse_batch(group->rank(), step, kHostWidth)));
        }
        EXPECT_TRUE(torch::equal(outputs[0], outputs[1])) << step;
      }
      expect_equal_bits(sharded.weights(), plain.weights());
    }
  });
}

// Every rank writes, in place: once for its host would be wrong if the others saw it.
TEST_P(Stage3OnHosts, TakesOverWhatEachRankWrites) {
  run([](const Group& group) {
    HostSubject sharded(group, true), plain(group, false);
    for (HostSubject* each : {&sharded, &plain}) {
      each->step(group->rank(), 0);
      each->optimizer.zero_grad();
      each->ddp.fused_step().unshard();
      {
        const torch::NoGradGuard no_grad;
        each->model->linear(3)->weight.mul_(0.5);
        each->model->linear(1)->bias.data().add_(1);
      }
      each->ddp.fused_step().reshard();
      for (int step = 1; step < 3; ++step) each->step(group->rank(), step);
    }
    expect_equal_bits(sharded.weights(), plain.weights());
  });
}

TEST_P(Stage3OnHosts, RefusesWhatOneRankWrites) {
  run([](const Group& group) {
    HostSubject it(group, true);
    it.ddp.fused_step().unshard();
    if (group->rank() == 1) {
      const torch::NoGradGuard no_grad;
      it.model->linear(0)->weight.mul_(0.5);
    }
    it.ddp.fused_step().reshard();
    const std::string error = fuse_error([&] { it.ddp(fuse_batch(group->rank(), 0, kHostWidth)); });
    EXPECT_NE(error.find("have not written or loaded the same weights"), std::string::npos) << error;
  });
}

TEST_P(Stage3OnHosts, IsUndone) {
  run([](const Group& group) {
    HostSubject sharded(group, true), plain(group, false);
    for (HostSubject* each : {&sharded, &plain}) each->step(group->rank(), 0);
    sharded.ddp.fused_step().unfuse();
    for (HostSubject* each : {&sharded, &plain}) each->step(group->rank(), 1);
    std::vector<at::Tensor> weights;
    for (const at::Tensor& parameter : sharded.model->parameters()) weights.push_back(parameter.detach().clone());
    expect_equal_bits(weights, plain.weights());
  });
}

// Whether a read of this address would not end the process: the kernel looks for itself.
bool is_readable(const void* address) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe(ends.data()), 0);
  const bool result = ::write(ends[1], address, 1) == 1;
  ::close(ends[0]);
  ::close(ends[1]);
  return result;
}

// On every rank for itself, also while another one of the host still uses the layer.
TEST_P(Stage3OnHosts, FreedWeightsCannotBeRead) {
  run([](const Group& group) {
    HostSubject it(group, true);
    const void* first = nullptr;
    it.model->after_layer = [&](int layer) {
      if (layer == 0) {
        first = it.model->linear(0)->weight.data_ptr();
        EXPECT_TRUE(is_readable(first));
      }
      if (layer == kHostLayers - 1) {
        EXPECT_FALSE(is_readable(first));
      }
    };
    it.step(group->rank(), 0);
    EXPECT_FALSE(is_readable(first));
  });
}

TEST(Stage3OnTwoHosts, ALostRankEndsTheOthersStep) {
  const auto ends = ranks_as_processes(4, [](const Membership& membership) {
    const Group group = make_communicator("", on_two_hosts(membership));
    HostSubject it(group, true);
    it.step(group->rank(), 0);
    it.model->after_layer = [&](int layer) {
      if (layer == 2 && group->rank() == 3) ::raise(SIGKILL);
    };
    it.step(group->rank(), 1);
  });
  EXPECT_EQ(ends[3].signal, SIGKILL);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    EXPECT_TRUE(ends[rank].failed) << rank;
    EXPECT_FALSE(ends[rank].timed_out) << ends[rank].text;
    EXPECT_NE(ends[rank].text.find("rank 3 on "), std::string::npos) << ends[rank].text;
  }
}

}  // namespace
}  // namespace lockstep
