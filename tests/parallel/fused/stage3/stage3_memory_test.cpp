// Tests by what the kernel counts that a rank holds its share of the weights and two layers (stage 3).
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include "lockstep/detail/tensor/autocast.h"
#include "lockstep/models/layers/dense_function.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/tensor/bf16_forward.h"
#include "tests/parallel/fused/fuse_ranks.h"
#include "tests/support/memory/kernel_memory.h"
#include "tests/support/memory/tensor_mappings.h"
#include "tests/support/pretended_hosts.h"

namespace lockstep {
namespace {

constexpr int kDepth = 16;
constexpr int kSide = 512;  // a layer's weights are 1 MiB, and a bucket
constexpr double kSideMib = 4.0 * kSide * kSide / (1 << 20);

// Memory of this process alone, in MiB; negative if the kernel does not say.
double private_mib() { return mib_by_kernel("status", "RssAnon"); }

struct DeepNetImpl : torch::nn::Module {
  DeepNetImpl() {
    layers = register_module("layers", torch::nn::ModuleList());
    for (int i = 0; i < kDepth; ++i) {
      layers->push_back(torch::nn::Linear(torch::nn::LinearOptions(kSide, kSide).bias(false)));
    }
  }
  torch::Tensor forward(torch::Tensor x) {
    most_mib = 0;
    int number = 0;
    for (const auto& layer : *layers) {
      x = layer->as<torch::nn::Linear>()->forward(x);
      most_mib = std::max(most_mib, private_mib());
      if (after_layer) after_layer(number++);
    }
    return x;
  }
  torch::nn::ModuleList layers{nullptr};
  std::function<void(int)> after_layer;
  double most_mib = 0;
};
TORCH_MODULE(DeepNet);

FuseOptions of_stage(int stage) {
  FuseOptions how;
  how.stage = stage;
  return how;
}

// A model of its own, whose steps are measured.
template <typename Net>
struct FusedNet {
  FusedNet(const Group& group, const FuseOptions& how) : ddp(model, small_buckets(group)) {
    EXPECT_EQ(ddp.fuse(optimizer, how).mode(), FuseMode::ShardedState);
  }
  static DistributedDataParallelOptions small_buckets(const Group& group) {
    DistributedDataParallelOptions options = fuse_on(group);
    options.bucket_cap_mb = kSideMib;
    return options;
  }
  // `in_bf16`: forward is one of a layer of LibTorch, which does not ask for bf16 itself.
  void step(const torch::Tensor& batch, bool in_bf16 = false) {
    std::optional<Bf16Forward> bf16;
    if (in_bf16) bf16.emplace(*model);
    ddp(batch).to(at::kFloat).pow(2).mean().backward();
    bf16.reset();
    optimizer.step();
    optimizer.zero_grad();
  }
  Net model;
  DistributedDataParallel<Net> ddp;
  SGD optimizer{model->parameters(), torch::optim::SGDOptions(0.01)};
};

struct MeasuredMib {
  double between_steps = 0;
  double in_forward = 0;
};

// Beyond what was there before.
MeasuredMib mib_of_stage(const Group& group, int stage) {
  const double before = private_mib();
  FuseOptions how = of_stage(stage);
  how.slots = 2;
  FusedNet<DeepNet> net(group, how);
  for (int step = 0; step < 3; ++step) net.step(fuse_batch(group->rank(), step, kSide));
  return {private_mib() - before, net.model->most_mib - before};
}

TEST(Stage3Memory, IsAShareOfTheWeightsAndTwoLayers) {
  if (private_mib() < 0) GTEST_SKIP() << "the kernel has no RssAnon in /proc/self/status";
  run_ranks_as_processes(2, [](const Membership& membership) {
    give_tensors_mappings();
    const Group group = make_communicator("gloo", membership);
    mib_of_stage(group, 3);  // what libraries take once
    const MeasuredMib two = mib_of_stage(group, 2), three = mib_of_stage(group, 3);
    const double weights = kDepth * kSideMib;
    // The group that gathers takes about 1 MiB itself.
    EXPECT_NEAR(two.between_steps - three.between_steps, weights / 2, 2);
    EXPECT_NEAR(three.in_forward - three.between_steps, 2 * kSideMib, 1);
  });
}

// What this process has of memory that processes share: a page that R of them have mapped counts 1/R in each.
double shared_mib() { return mib_by_kernel("smaps_rollup", "Pss_Shmem"); }

double shared_mib_of_all(Communicator& group) {
  group.barrier();
  const at::Tensor sum = torch::full({1}, shared_mib(), torch::kDouble);
  group.barrier();
  group.all_reduce(sum);
  return sum.item<double>();
}

struct SharedMib {
  double in_forward = 0;
  double at_end_of_forward = 0;
};

// Beyond what is there between steps. In a first step, in which no rank guesses which layer follows.
SharedMib shared_mib_of_stage_3(const Group& group, bool reshards, bool in_bf16 = false) {
  FuseOptions how = of_stage(3);
  how.reshard_after_forward = reshards;
  if (in_bf16) how.compute_dtype = at::kBFloat16;
  FusedNet<DeepNet> net(group, how);
  const auto step = [&] { net.step(fuse_batch(group->rank(), 0, kSide), in_bf16); };
  if (in_bf16) step();  // the ranks agree in it what is gathered in bf16
  const double before = shared_mib_of_all(*group);
  SharedMib result;
  net.model->after_layer = [&](int layer) {
    if (layer == kDepth / 2) result.in_forward = shared_mib_of_all(*group) - before;
    if (layer == kDepth - 1) result.at_end_of_forward = shared_mib_of_all(*group) - before;
  };
  step();
  EXPECT_NEAR(shared_mib_of_all(*group) - before, 0, 0.3) << "after a step";
  return result;
}

TEST(Stage3Memory, OfAHostIsTwoLayersForAnyNumberOfRanks) {
  if (shared_mib() < 0) GTEST_SKIP() << "the kernel has no Pss_Shmem in /proc/self/smaps_rollup";
  for (const int ranks : {2, 3}) {
    run_ranks_as_processes(2 * ranks, [](const Membership& membership) {
      const Group group = make_communicator("", on_two_hosts(membership));
      shared_mib_of_stage_3(group, true);  // pages of the engine itself, which come when they are used
      EXPECT_NEAR(shared_mib_of_stage_3(group, true).in_forward, 2 * 2 * kSideMib, 0.3) << "two layers on two hosts";
      const SharedMib kept = shared_mib_of_stage_3(group, false);
      EXPECT_NEAR(kept.at_end_of_forward, 2 * kDepth * kSideMib, 0.5) << "all layers once on two hosts";
    });
  }
}

// In the second step each rank guesses which layer follows, so the second one may still be on its way.
TEST(Stage3Memory, OfAHostIsHalfAsMuchInBf16ForAnyNumberOfRanks) {
  if (shared_mib() < 0) GTEST_SKIP() << "the kernel has no Pss_Shmem in /proc/self/smaps_rollup";
  for (const int ranks : {2, 3}) {
    run_ranks_as_processes(2 * ranks, [](const Membership& membership) {
      const Group group = make_communicator("", on_two_hosts(membership));
      shared_mib_of_stage_3(group, true, true);
      const double in_forward = shared_mib_of_stage_3(group, true, true).in_forward;
      EXPECT_GE(in_forward, 2 * kSideMib / 2 - 0.3) << "a layer on two hosts";
      EXPECT_LE(in_forward, 2 * 2 * kSideMib / 2 + 0.3) << "two layers on two hosts";
      EXPECT_NEAR(shared_mib_of_stage_3(group, false, true).at_end_of_forward, 2 * kDepth * kSideMib / 2, 0.5);
    });
  }
}

// A table that is read in fp32, in one part with a layer that is read in bf16.
struct TableBesideImpl : torch::nn::Module {
  TableBesideImpl() {
    table = register_module("table", torch::nn::Embedding(16384, 128));  // 8 MiB
    layer = register_module("layer", torch::nn::Linear(128, 128));
  }
  torch::Tensor forward(const torch::Tensor& ids) { return layer->forward(table->forward(ids)); }
  torch::nn::Embedding table{nullptr};
  torch::nn::Linear layer{nullptr};
};
TORCH_MODULE(TableBeside);

double mib_between_steps(const Group& group, bool in_bf16) {
  const double before = private_mib();
  FuseOptions how = of_stage(3);
  how.slots = 1;
  if (in_bf16) how.compute_dtype = at::kBFloat16;
  FusedNet<TableBeside> net(group, how);
  for (int step = 0; step < 3; ++step) net.step(torch::arange(16), in_bf16);
  return private_mib() - before;
}

// A rank keeps 4 MiB of the table itself, and would keep as much to send it.
TEST(Stage3Memory, GivesBackWhatIsSentInFp32BesideCopies) {
  if (private_mib() < 0) GTEST_SKIP() << "the kernel has no RssAnon in /proc/self/status";
  run_ranks_as_processes(2, [](const Membership& membership) {
    give_tensors_mappings();
    const Group group = make_communicator("gloo", membership);
    mib_between_steps(group, true);  // what libraries take once
    EXPECT_NEAR(mib_between_steps(group, true), mib_between_steps(group, false), 1.5);
  });
}

constexpr int kBesideDepth = 8;

// Layers of which each has three matrices that are multiplied together, and one more: 2 MiB in bf16.
struct BesideNetImpl : torch::nn::Module {
  BesideNetImpl() {
    layers = register_module("layers", torch::nn::ModuleList());
    for (int i = 0; i < kBesideDepth; ++i) {
      torch::nn::ModuleList layer;
      for (int k = 0; k < 4; ++k) layer->push_back(torch::nn::Linear(kSide, kSide));
      layers->push_back(layer);
    }
  }
  torch::Tensor forward(torch::Tensor x) {
    const Autocast autocast(c10::DeviceType::CPU, at::kBFloat16, true);
    most_mib = 0;
    for (const auto& layer : *layers) {
      std::vector<torch::nn::LinearImpl*> parts;
      for (const auto& part : *layer->as<torch::nn::ModuleList>()) parts.push_back(part->as<torch::nn::Linear>());
      const at::Tensor beside = dense_beside(x, {parts[0]->weight, parts[1]->weight, parts[2]->weight},
                                             {parts[0]->bias, parts[1]->bias, parts[2]->bias});
      x = dense(beside.narrow(1, kSide, kSide), parts[3]->weight, parts[3]->bias, WeightLayout::OutIn);
      most_mib = std::max(most_mib, private_mib());
    }
    return x.to(at::kFloat);
  }
  torch::nn::ModuleList layers{nullptr};
  double most_mib = 0;
};
TORCH_MODULE(BesideNet);

// A cast of a weight, or three of them joined, would stay until backward: 16 MiB.
TEST(Stage3Memory, KeepsNoCopyOfAWeightForBackward) {
  if (private_mib() < 0) GTEST_SKIP() << "the kernel has no RssAnon in /proc/self/status";
  run_ranks_as_processes(2, [](const Membership& membership) {
    give_tensors_mappings();
    const Group group = make_communicator("gloo", membership);
    FuseOptions how = of_stage(3);
    how.compute_dtype = at::kBFloat16;
    FusedNet<BesideNet> net(group, how);
    double between_steps = 0;
    for (int step = 0; step < 3; ++step) {
      between_steps = private_mib();
      net.step(fuse_batch(group->rank(), step, kSide));
    }
    // The layer, what arrives of the next one, and as much again for what the allocator and the group keep.
    EXPECT_LT(net.model->most_mib - between_steps, 8);
  });
}

}  // namespace
}  // namespace lockstep
