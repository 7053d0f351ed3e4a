// Tests of weights in shards (stage 3) that are gathered in bf16: who reads what in which type. No bit changes.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>
#include <vector>

#include "lockstep/detail/tensor/autocast.h"
#include "lockstep/models/layers/dense_function.h"
#include "lockstep/models/layers/layers.h"
#include "lockstep/optim/adam.h"
#include "lockstep/tensor/bf16_forward.h"
#include "lockstep/tensor/compute_copy.h"
#include "tests/parallel/fused/fuse_ranks.h"
#include "tests/support/pretended_hosts.h"

namespace lockstep {
namespace {

constexpr std::int64_t kTokens = 20;
constexpr std::int64_t kCopiedWidth = 32;
constexpr int kBlocks = 4;

at::Tensor seeded(at::IntArrayRef sizes, std::uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  return torch::randn(sizes, generator) * 0.2;
}

// A unit: a LayerNorm, which is read in fp32, and matrices and vectors, which are read in bf16.
struct BlockImpl : torch::nn::Module {
  BlockImpl()
      : norm(register_module("norm", std::make_shared<Norm>(kCopiedWidth, 1e-5))),
        query(register_module("query", std::make_shared<Dense>(kCopiedWidth, kCopiedWidth))),
        key(register_module("key", std::make_shared<Dense>(kCopiedWidth, kCopiedWidth))),
        value(register_module("value", std::make_shared<Dense>(kCopiedWidth, kCopiedWidth))),
        branch(register_module("branch", std::make_shared<Dense>(kCopiedWidth, kCopiedWidth))) {}
  at::Tensor forward(const at::Tensor& x, bool takes_branch) {
    const at::Tensor beside = dense_beside(norm->forward(x), {query->weight(), key->weight(), value->weight()},
                                           {query->bias(), key->bias(), value->bias()});
    const at::Tensor h = torch::tanh(beside.narrow(1, 0, kCopiedWidth)) * beside.narrow(1, kCopiedWidth, kCopiedWidth) +
                         beside.narrow(1, 2 * kCopiedWidth, kCopiedWidth);
    return x + (takes_branch ? branch->forward(h) : h).to(at::kFloat);
  }
  std::shared_ptr<Norm> norm;
  std::shared_ptr<Dense> query, key, value, branch;
};
TORCH_MODULE(Block);

// Two tables outside of units. One is read in fp32 at the beginning and in bf16 at the end.
struct TiedNetImpl : torch::nn::Module {
  TiedNetImpl() {
    table = register_parameter("table", torch::zeros({kTokens, kCopiedWidth}));
    positions = register_parameter("positions", torch::zeros({6, kCopiedWidth}));
    layers = register_module("layers", torch::nn::ModuleList());
    for (int i = 0; i < kBlocks; ++i) layers->push_back(Block());
    const torch::NoGradGuard no_grad;
    std::uint64_t seed = 1;
    for (at::Tensor& parameter : parameters()) parameter.copy_(seeded(parameter.sizes(), seed++));
  }
  at::Tensor forward(const at::Tensor& ids, bool takes_branch = true) {
    const Autocast autocast(c10::DeviceType::CPU, at::kBFloat16, true);
    at::Tensor x = embed(table, ids, -1) + positions;
    for (const auto& layer : *layers) x = layer->as<Block>()->forward(x, takes_branch);
    const at::Tensor scores = dense(x, table, {}, WeightLayout::OutIn).to(at::kFloat);
    return has_penalty ? scores + layers[2]->as<Block>()->query->weight().pow(2).mean() : scores;
  }
  bool has_penalty = false;
  at::Tensor table, positions;
  torch::nn::ModuleList layers{nullptr};
};
TORCH_MODULE(TiedNet);

at::Tensor ids_of(int rank, int step) {
  return torch::arange(6, torch::kLong).mul(3 + rank).add(step).remainder(kTokens);
}

struct CopiedShards {
  CopiedShards(const Group& group, int stage, bool publishes = true, bool reshards = true, double bucket_mb = 0.004)
      : ddp(model, options(group, bucket_mb)) {
    FuseOptions how;
    how.stage = stage;
    how.share_weights = false;
    how.reshard_after_forward = reshards;
    if (publishes) how.compute_dtype = at::kBFloat16;
    EXPECT_EQ(ddp.fuse(optimizer, how), FuseMode::ShardedState) << ddp.fuse_reason();
    EXPECT_EQ(ddp.fuse_reason(), "");
  }
  static DistributedDataParallelOptions options(const Group& group, double bucket_mb) {
    DistributedDataParallelOptions result = fuse_on(group);
    result.bucket_cap_mb = bucket_mb;
    return result;
  }
  void step(int rank, int number, bool takes_branch = true) {
    optimizer.zero_grad();
    ddp(ids_of(rank, number), takes_branch).pow(2).mean().backward();
    optimizer.step();
  }
  at::Tensor evaluate(int rank, int number) {
    const torch::NoGradGuard no_grad;
    return ddp(ids_of(rank, number));
  }
  Block block(int i) {
    return Block(std::dynamic_pointer_cast<BlockImpl>(model->layers->ptr(static_cast<std::size_t>(i))));
  }
  std::vector<at::Tensor> weights() {
    ddp.unshard();
    std::vector<at::Tensor> result;
    for (const at::Tensor& parameter : model->parameters()) result.push_back(parameter.detach().clone());
    ddp.reshard();
    return result;
  }

  TiedNet model;
  DistributedDataParallel<TiedNet> ddp;
  AdamW optimizer{model->parameters(), torch::optim::AdamWOptions(0.01)};
};

void expect_bits(const std::vector<at::Tensor>& got, const std::vector<at::Tensor>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(torch::equal(got[i], want[i])) << i;
}

class Stage3Bf16 : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Engines, Stage3Bf16, ::testing::Values("thread", "gloo", "hosts"),
                         [](const auto& test) { return std::string(test.param); });

void on_ranks(const std::string& engine, int world_size, const std::function<void(const Group&)>& body) {
  if (engine != "hosts") return fuse_ranks(engine, world_size, body);
  run_ranks_as_threads(world_size,
                       [&](const Membership& membership) { body(make_communicator("", on_two_hosts(membership))); });
}

// Also evaluations: in shards, and on gathered weights.
TEST_P(Stage3Bf16, HasTheBitsOfStage2) {
  on_ranks(GetParam(), 3, [](const Group& group) {
    for (const double bucket_mb : {0.0001, 0.004, 25.0}) {
      for (const bool reshards : {true, false}) {
        SCOPED_TRACE(std::to_string(bucket_mb) + (reshards ? " reshards" : ""));
        CopiedShards sharded(group, 3, true, reshards, bucket_mb), known(group, 2, true, true, bucket_mb);
        for (int step = 0; step < 4; ++step) {
          std::vector<at::Tensor> outputs;
          for (CopiedShards* each : {&sharded, &known}) {
            outputs.push_back(each->evaluate(group->rank(), step));
            each->step(group->rank(), step);
            outputs.push_back(each->evaluate(group->rank(), step));
            each->ddp.unshard();
            outputs.push_back(each->evaluate(group->rank(), step + 1));
            each->ddp.reshard();
          }
          for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(torch::equal(outputs[i], outputs[i + 3])) << step << i;
        }
        expect_bits(sharded.weights(), known.weights());
        sharded.ddp.unfuse();
        for (CopiedShards* each : {&sharded, &known}) each->step(group->rank(), 9);
        expect_bits(sharded.weights(), known.weights());
      }
    }
  });
}

// Of weights that nobody has read yet, the ranks gather what a forward may read first, and learn what it has read.
TEST_P(Stage3Bf16, ARankMayReadAWeightThatOthersDoNot) {
  on_ranks(GetParam(), 3, [](const Group& group) {
    CopiedShards sharded(group, 3), known(group, 2);
    for (CopiedShards* each : {&sharded, &known}) {
      each->step(group->rank(), 0, false);
      each->step(group->rank(), 1, false);
      each->step(group->rank(), 2, group->rank() == 1);
      each->step(group->rank(), 3, true);
      each->step(group->rank(), 4, group->rank() == 0);
    }
    expect_bits(sharded.weights(), known.weights());
  });
}

// The tied table is read in both ways in each step, and the penalty reads a matrix in fp32 in some.
TEST_P(Stage3Bf16, WeightsThatAreReadInBf16CanBeReadInFp32) {
  on_ranks(GetParam(), 3, [](const Group& group) {
    for (const bool reshards : {true, false}) {
      CopiedShards sharded(group, 3, true, reshards), known(group, 2);
      for (CopiedShards* each : {&sharded, &known}) {
        for (int step = 0; step < 6; ++step) {
          each->model->has_penalty = step == 2 || step == 3 || step == 5;
          each->step(group->rank(), step);
        }
      }
      expect_bits(sharded.weights(), known.weights());
    }
  });
}

TEST_P(Stage3Bf16, TakesOverWhatIsWritten) {
  on_ranks(GetParam(), 3, [](const Group& group) {
    CopiedShards sharded(group, 3), known(group, 2);
    std::vector<at::Tensor> outputs;
    for (CopiedShards* each : {&sharded, &known}) {
      for (int step = 0; step < 2; ++step) each->step(group->rank(), step);
      each->optimizer.zero_grad();
      each->ddp.unshard();
      {
        const torch::NoGradGuard no_grad;
        each->block(1)->query->weight().mul_(0.5);
        each->block(2)->norm->parameters()[0].data().add_(1);
        each->block(3)->value->weight().view({-1})[37] = 2;  // one element
        each->model->table.set_data(seeded({kTokens, kCopiedWidth}, 99));
      }
      outputs.push_back(each->evaluate(group->rank(), 2));
      each->ddp.reshard();
      outputs.push_back(each->evaluate(group->rank(), 2));
      for (int step = 2; step < 4; ++step) each->step(group->rank(), step);
    }
    EXPECT_TRUE(torch::equal(outputs[0], outputs[2]));
    EXPECT_TRUE(torch::equal(outputs[1], outputs[3]));
    EXPECT_FALSE(torch::equal(outputs[0], torch::zeros_like(outputs[0])));
    expect_bits(sharded.weights(), known.weights());
  });
}

TEST_P(Stage3Bf16, ACopyHasElementsInForwardAndBackwardAlone) {
  on_ranks(GetParam(), 2, [](const Group& group) {
    CopiedShards it(group, 3);
    for (int step = 0; step < 2; ++step) {
      const torch::NoGradGuard no_grad;
      const at::Tensor copy = compute_copy(it.block(1)->query->weight(), at::kBFloat16);
      EXPECT_EQ(copy.scalar_type(), at::kBFloat16);
      EXPECT_EQ(copy.sizes(), it.block(1)->query->weight().sizes());
      const std::string error = fuse_error([&] { copy.sum(); });
      EXPECT_NE(error.find("layers.1.query.weight"), std::string::npos) << error;
      EXPECT_NE(error.find("outside of forward"), std::string::npos) << error;
      const torch::AutoGradMode grad(true);
      it.step(group->rank(), step);
    }
  });
}

// Layers of LibTorch get all their copies before the forward, from the first one on.
struct PlainUnitsImpl : torch::nn::Module {
  PlainUnitsImpl() : layers(register_module("layers", torch::nn::ModuleList())) {
    for (int i = 0; i < 3; ++i) layers->push_back(make_linear(16, 16));
    attention = register_module("attention", torch::nn::MultiheadAttention(16, 2));
    std::uint64_t seed = 1;
    const torch::NoGradGuard no_grad;
    for (at::Tensor& parameter : parameters()) parameter.copy_(seeded(parameter.sizes(), seed++));
  }
  at::Tensor forward(at::Tensor x) {
    for (const auto& layer : *layers) x = torch::tanh(layer->as<torch::nn::Linear>()->forward(x));
    x = x.view({-1, 1, 16});
    return std::get<0>(attention->forward(x, x, x));
  }
  torch::nn::ModuleList layers;
  torch::nn::MultiheadAttention attention{nullptr};
};
TORCH_MODULE(PlainUnits);

std::vector<at::Tensor> train_plain_units(const Group& group, int stage) {
  PlainUnits model;
  DistributedDataParallelOptions options = fuse_on(group);
  options.bucket_cap_mb = 0.001;
  DistributedDataParallel ddp(model, options);
  AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(0.01));
  FuseOptions how;
  how.stage = stage;
  how.share_weights = false;
  how.compute_dtype = at::kBFloat16;
  EXPECT_EQ(ddp.fuse(optimizer, how), FuseMode::ShardedState);
  std::vector<at::Tensor> result;
  const auto forward = [&](int step) {
    const Bf16Forward bf16(*model);
    return ddp(fuse_batch(group->rank(), step, 16)).to(torch::kFloat);
  };
  for (int step = 0; step < 4; ++step) {
    optimizer.zero_grad();
    {
      const torch::NoGradGuard no_grad;
      result.push_back(forward(step));
    }
    const at::Tensor loss = forward(step).pow(2).mean();
    result.push_back(loss.detach());
    loss.backward();
    optimizer.step();
  }
  ddp.unshard();
  for (const at::Tensor& parameter : model->parameters()) result.push_back(parameter.detach().clone());
  return result;
}

TEST_P(Stage3Bf16, LayersOfLibTorchReadCopies) {
  on_ranks(GetParam(), 2,
           [](const Group& group) { expect_bits(train_plain_units(group, 3), train_plain_units(group, 2)); });
}

constexpr int kDepth = 10;
constexpr std::int64_t kSide = 32;

struct MatricesImpl : torch::nn::Module {
  MatricesImpl() : layers(register_module("layers", torch::nn::ModuleList())) {
    for (int i = 0; i < kDepth; ++i) {
      layers->push_back(torch::nn::Linear(torch::nn::LinearOptions(kSide, kSide).bias(false)));
    }
  }
  at::Tensor forward(at::Tensor x) {
    for (const auto& layer : *layers) x = layer->as<torch::nn::Linear>()->forward(x);
    return x;
  }
  torch::nn::ModuleList layers;
};
TORCH_MODULE(Matrices);

// Matrices alone, one in each unit: bytes by hand.
TEST(Stage3Bf16Bytes, HoldsAShareItsCopyAndTwoUnitsInBf16) {
  fuse_ranks("thread", 2, [](const Group& group) {
    Matrices model;
    DistributedDataParallelOptions options = fuse_on(group);
    options.bucket_cap_mb = 0.0001;
    DistributedDataParallel ddp(model, options);
    AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(0.01));
    FuseOptions how;
    how.stage = 3;
    how.share_weights = false;
    how.compute_dtype = at::kBFloat16;
    ddp.fuse(optimizer, how);
    for (int step = 0; step < 4; ++step) {
      const Bf16Forward bf16(*model);
      ddp(fuse_batch(group->rank(), step, kSide)).pow(2).sum().backward();
      optimizer.step();
      optimizer.zero_grad();
    }
    const std::int64_t matrix = kSide * kSide;
    const std::int64_t shard = 4 * kDepth * matrix / 2, copies = 2 * kDepth * matrix / 2;
    // The unit that is used and what has arrived of it, and what arrives of the next one.
    const std::int64_t units = 3 * 2 * matrix;
    EXPECT_EQ(ddp.peak_weight_bytes(), shard + copies + units);
  });
}

}  // namespace
}  // namespace lockstep
