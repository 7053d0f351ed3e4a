// Tests deferred models: that weights have the bits that they would have had at once, and that nobody holds them all.
#include "lockstep/parallel/deferred.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lockstep/optim/sgd.h"
#include "lockstep/parallel/fully_sharded_data_parallel.h"
#include "lockstep/safetensors/safetensors.h"
#include "tests/parallel/fused/fuse_ranks.h"
#include "tests/support/memory/kernel_memory.h"
#include "tests/support/memory/peak_memory.h"
#include "tests/support/memory/tensor_mappings.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

// Large enough to be deferred: LibTorch's layers, and schemes of initialisation by hand.
struct DeferredNetImpl : torch::nn::Module {
  DeferredNetImpl() {
    table = register_module("table", torch::nn::Embedding(torch::nn::EmbeddingOptions(300, 64).padding_idx(3)));
    dense = register_module("dense", torch::nn::Linear(64, 512));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({512})));
    own = register_parameter("own", torch::empty({512, 64}));
    copied = register_parameter("copied", torch::empty({128, 128}));
    const torch::NoGradGuard no_grad;
    own.uniform_(-1, 1).erfinv_().mul_(0.02).clamp_(-0.03, 0.03);
    own.narrow(0, 2, 5).normal_(0, 3);
    copied.copy_(torch::linspace(0, 1, 128));
  }
  torch::Tensor forward(const torch::Tensor& ids) {
    return torch::matmul(norm(dense(table(ids))), own) + copied.narrow(0, 0, 1).narrow(1, 0, 64);
  }
  torch::nn::Embedding table{nullptr};
  torch::nn::Linear dense{nullptr};
  torch::nn::LayerNorm norm{nullptr};
  torch::Tensor own, copied;
};
TORCH_MODULE(DeferredNet);

DeferredNet net_of_seed(std::uint64_t seed) {
  torch::manual_seed(seed);
  return {};
}

bool has_elements(const torch::Tensor& tensor) { return tensor.has_storage(); }

TEST(Deferred, HasTheBitsOfAModelThatIsBuiltAtOnce) {
  const DeferredNet plain = net_of_seed(7);
  const torch::Tensor next = torch::rand({3});
  const DeferredNet later = deferred([] { return net_of_seed(7); });
  EXPECT_TRUE(torch::equal(torch::rand({3}), next)) << "random numbers continue";
  for (const torch::Tensor& weight : {later->table->weight, later->dense->weight, later->own, later->copied}) {
    EXPECT_FALSE(has_elements(weight));
    EXPECT_TRUE(weight.requires_grad());
  }
  EXPECT_TRUE(has_elements(later->dense->bias)) << "small";
  EXPECT_TRUE(has_elements(later->norm->weight)) << "small";
  const auto want = plain->parameters(), got = later->parameters();
  torch::rand({100});  // what is drawn meanwhile changes nothing
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_TRUE(torch::equal(got[i], want[i])) << i;
    EXPECT_TRUE(has_elements(got[i])) << i;
  }
  EXPECT_EQ(later->table->weight[3].abs().max().item<double>(), 0);
}

TEST(Deferred, ComputesAndTrainsByItself) {
  DeferredNet plain = net_of_seed(7), later = deferred([] { return net_of_seed(7); });
  const torch::Tensor ids = torch::arange(10).view({2, 5});
  for (DeferredNet* each : {&plain, &later}) (*each)(ids).pow(2).mean().backward();
  EXPECT_TRUE(torch::equal(plain->own.grad(), later->own.grad()));
  EXPECT_TRUE(torch::equal(plain->table->weight.grad(), later->table->weight.grad()));
}

TEST(Deferred, LeavesInMemoryWhatItCannotMakeLater) {
  struct OddNetImpl : torch::nn::Module {
    OddNetImpl() {
      at_once = register_parameter("at_once", torch::full({256, 256}, 2.0));
      raw = register_module("raw", torch::nn::Linear(256, 256));
      std::vector<float> ones(256 * 256, 1);
      std::memcpy(raw->weight.data_ptr(), ones.data(), raw->weight.nbytes());
      read = register_module("read", torch::nn::Linear(256, 256));
      sum = read->weight.sum().item<double>();
      held = register_module("held", torch::nn::Linear(256, 256));
      view = held->weight.detach().t();
      source = torch::ones({256, 256});
      const torch::NoGradGuard no_grad;
      at_once.mul_(2);
      copied = register_parameter("copied", torch::empty({256, 256}));
      copied.copy_(source);
      source.fill_(5);
    }
    torch::Tensor at_once, copied, source, view;
    torch::nn::Linear raw{nullptr}, read{nullptr}, held{nullptr};
    double sum = 0;
  };
  torch::manual_seed(3);
  const OddNetImpl plain;
  torch::manual_seed(3);
  const auto later = deferred([] { return std::make_shared<OddNetImpl>(); });
  const auto want = plain.parameters(), got = later->parameters();
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(torch::equal(got[i], want[i])) << i;
  EXPECT_EQ(later->sum, plain.sum);
  EXPECT_TRUE(torch::equal(later->view, plain.view));
}

TEST(Deferred, NamesWhatIsWrong) {
  const auto nested = [] { return deferred([] { return deferred([] { return net_of_seed(1); }); }); };
  EXPECT_NE(fuse_error(nested).find("deferred() cannot be called within deferred()"), std::string::npos);
  torch::Tensor source = torch::ones({256, 256});
  const auto later = deferred([&] {
    torch::nn::Linear model(256, 256);
    const torch::NoGradGuard no_grad;
    model->weight.copy_(source);
    return model;
  });
  source.fill_(2);
  EXPECT_NE(fuse_error([&] { later->weight.sum(); }).find("has changed since"), std::string::npos);
}

constexpr int kTallDepth = 12;
constexpr int kTallSide = 1024;  // a layer's weights are 4 MiB
constexpr double kTallLayerMib = 4;

struct TallNetImpl : torch::nn::Module {
  explicit TallNetImpl(const std::string& file = "") {
    layers = register_module("layers", torch::nn::ModuleList());
    for (int i = 0; i < kTallDepth; ++i) {
      layers->push_back(torch::nn::Linear(torch::nn::LinearOptions(kTallSide, kTallSide).bias(false)));
    }
    if (file.empty()) return;
    const torch::NoGradGuard no_grad;
    const SafetensorsFile weights(file);
    for (auto& item : named_parameters()) item.value().copy_(weights.tensor(item.key()));
  }
  torch::Tensor forward(torch::Tensor x) {
    for (const auto& layer : *layers) x = x + torch::tanh(layer->as<torch::nn::Linear>()->forward(x));
    return x;
  }
  torch::nn::ModuleList layers{nullptr};
};
TORCH_MODULE(TallNet);

FullyShardOptions tall_options(const Group& group) {
  FullyShardOptions options;
  options.process_group = group;
  options.bucket_cap_mb = kTallLayerMib;
  return options;
}

TallNet make_tall(bool defers, const std::string& file) {
  return defers ? deferred([&] { return TallNet(file); }) : TallNet(file);
}

double most_mib_until_sharded(const Group& group, bool defers) {
  const PeakMemory peak;
  TallNet model = make_tall(defers, "");
  SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.01));
  const auto fsdp = fully_shard(model, optimizer, tall_options(group));
  const double mib = peak.mib();
  group->barrier();
  return mib;
}

std::vector<torch::Tensor> train_tall(const Group& group, bool defers, const std::string& file) {
  torch::manual_seed(group->rank());  // rank 0's weights count
  TallNet model = make_tall(defers, file);
  SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.01));
  auto fsdp = fully_shard(model, optimizer, tall_options(group));
  for (int step = 0; step < 2; ++step) {
    optimizer.zero_grad();
    fsdp(fuse_batch(group->rank(), step, kTallSide)).pow(2).mean().backward();
    optimizer.step();
  }
  std::vector<torch::Tensor> weights;
  fsdp.unshard();
  for (const torch::Tensor& weight : fsdp.parameters()) weights.push_back(weight.detach().clone());
  fsdp.reshard();
  group->barrier();
  return weights;
}

// One of 2 ranks keeps 24 MiB of weights, and has 4 slots for gradients of one layer each. A weight and its bucket are
// there for a moment.
TEST(DeferredShards, NoRankHoldsTheModel) {
  if (mib_by_kernel("status", "VmHWM") < 0) GTEST_SKIP() << "the kernel has no VmHWM in /proc/self/status";
  const TemporaryFolder folder;
  const std::string file = folder / "weights.safetensors";
  {
    torch::manual_seed(5);
    const TallNet model;
    NamedTensors tensors;
    for (const auto& item : model->named_parameters()) tensors.emplace_back(item.key(), item.value().detach());
    write_safetensors(file, tensors);
  }
  run_ranks_as_processes(2, [&](const Membership& membership) {
    give_tensors_mappings();
    const Group group = make_communicator("tcp", membership);
    const double whole = kTallDepth * kTallLayerMib;
    for (const std::string& from : {std::string(), file}) {
      const auto want = train_tall(group, false, from), got = train_tall(group, true, from);
      ASSERT_EQ(got.size(), want.size());
      for (std::size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(torch::equal(got[i], want[i])) << i;
    }
    // Pages of a mapped file would count, which the kernel takes back when it needs them.
    const double at_once = most_mib_until_sharded(group, false);
    EXPECT_GT(at_once, 1.9 * whole) << "weights, and buckets for their gradients";
    EXPECT_LT(most_mib_until_sharded(group, true), whole / 2 + 7 * kTallLayerMib) << at_once << " at once";
  });
}

// What is missing of a mapped file reads as zeros.
TEST(Deferred, NamesAFileThatWasCutBeforeAWeightWasReadFromIt) {
  const TemporaryFolder folder;
  const std::string path = folder / "weights.safetensors";
  constexpr int kRows = 8192;  // 32 MiB: smaller files are not mapped
  write_safetensors(path, {{"weight", torch::full({kRows, 1024}, 2.0)}});
  const torch::nn::Linear model = deferred([&] {
    torch::nn::Linear built(1024, kRows);
    const torch::NoGradGuard no_grad;
    built->weight.copy_(SafetensorsFile(path).tensor("weight"));
    return built;
  });
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 100);
  const std::string error = fuse_error([&] { (void)model->weight.sum(); });
  EXPECT_NE(error.find("weights.safetensors"), std::string::npos) << error;
  EXPECT_NE(error.find("was truncated from"), std::string::npos) << error;
}

TEST(DeferredShards, RanksThatReadOtherWeightsAreNamed) {
  run_ranks_as_threads(2, [](const Membership& membership) {
    const Group group = make_communicator("tcp", membership);
    const torch::Tensor source = torch::full({256, 256}, 1 + group->rank());
    torch::nn::Linear model{nullptr};
    model = deferred([&] {
      torch::nn::Linear built(256, 256);
      const torch::NoGradGuard no_grad;
      built->weight.copy_(source);
      return built;
    });
    SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.01));
    FullyShardOptions options;
    options.process_group = group;
    const std::string error = fuse_error([&] { fully_shard(model, optimizer, options); });
    EXPECT_NE(error.find("have made different weights \"weight\""), std::string::npos) << error;
    group->barrier();
  });
}

TEST(DeferredShards, RanksThatBuildInAnotherWayAreNamed) {
  run_ranks_as_threads(2, [](const Membership& membership) {
    const Group group = make_communicator("tcp", membership);
    torch::nn::Linear model{nullptr};
    const auto build = [] { return torch::nn::Linear(256, 256); };
    model = group->rank() == 0 ? build() : deferred(build);
    const std::string error = fuse_error([&] { DistributedDataParallel ddp(model, fuse_on(group)); });
    EXPECT_NE(error.find("rank 1 has weight: Float [256, 256], deferred: aten::uniform_"), std::string::npos) << error;
    group->barrier();
  });
}

// Plain ranks, and ranks that share one copy.
TEST(DeferredRanks, TakeRank0sRandomNumbers) {
  for (const char* engine : {"thread", "tcp"}) {
    for (const bool fuses : {false, true}) {
      fuse_ranks(engine, 2, [&](const Group& group) {
        DeferredNet model{nullptr};
        {
          static std::mutex one_at_a_time;  // threads share the generator
          const std::lock_guard<std::mutex> lock(one_at_a_time);
          model = deferred([&] { return net_of_seed(static_cast<std::uint64_t>(20 + group->rank())); });
        }
        DistributedDataParallel ddp(model, fuse_on(group));
        SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.0));
        if (group->rank() == 1) (void)model->own.sum();  // what one rank reads, it makes alone
        if (fuses) {
          EXPECT_NE(ddp.fuse(optimizer).mode(), FuseMode::Off) << ddp.fused_step().reason();
        }
        ddp(torch::arange(10).view({2, 5})).pow(2).mean().backward();
        optimizer.step();
        group->barrier();
        static std::mutex one;
        const std::lock_guard<std::mutex> lock(one);
        const DeferredNet want = net_of_seed(20);
        for (std::size_t i = 0; i < want->parameters().size(); ++i) {
          EXPECT_TRUE(torch::equal(model->parameters()[i], want->parameters()[i])) << i << engine << fuses;
        }
      });
    }
  }
}

}  // namespace
}  // namespace lockstep
