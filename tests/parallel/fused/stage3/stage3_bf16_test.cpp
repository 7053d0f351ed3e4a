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
#include "lockstep/tensor/compute_copy.h"
#include "tests/parallel/fused/fuse_ranks.h"
#include "tests/parallel/fused/stage3/stage3.h"
#include "tests/support/pretended_hosts.h"
#include "tests/support/test_size.h"

namespace lockstep {
namespace {

constexpr std::int64_t kTokens = 20;
constexpr std::int64_t kCopiedWidth = 32;
constexpr int kTiedBlocks = 4;

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
    for (int i = 0; i < kTiedBlocks; ++i) layers->push_back(Block());
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
    EXPECT_EQ(ddp.fuse(optimizer, how).mode(), FuseMode::ShardedState) << ddp.fused_step().reason();
    EXPECT_EQ(ddp.fused_step().reason(), "");
  }
  static DistributedDataParallelOptions options(const Group& group, double bucket_mb) {
    DistributedDataParallelOptions result = fuse_on(group);
    result.bucket_cap_mb = bucket_mb;
    return result;
  }
  void step(int rank, int number, bool takes_branch = true) {
    for (at::Tensor& parameter : model->parameters()) parameter.mutable_grad().reset();  // without one, no update
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
  std::vector<at::Tensor> weights() { return gathered_weights(ddp); }

  TiedNet model;
  DistributedDataParallel<TiedNet> ddp;
  AdamW optimizer{model->parameters(), torch::optim::AdamWOptions(0.01)};
};

class Stage3Bf16 : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Engines, Stage3Bf16, ::testing::Values("thread"),
                         [](const auto& test) { return std::string(test.param); });
INSTANTIATE_TEST_SUITE_P(EnginesLong, Stage3Bf16, ::testing::Values("gloo", "hosts"),
                         [](const auto& test) { return std::string(test.param); });

void on_ranks_of(const std::string& engine, int world_size, const std::function<void(const Group&)>& body) {
  if (engine != "hosts") return fuse_ranks(engine, world_size, body);
  run_ranks_as_threads(world_size,
                       [&](const Membership& membership) { body(make_communicator("", on_two_hosts(membership))); });
}

// Also evaluations: in shards, and on gathered weights.
TEST_P(Stage3Bf16, HasTheBitsOfStage2) {
  on_ranks_of(GetParam(), 3, [](const Group& group) {
    for (const double bucket_mb : {0.0001, 0.004, 25.0}) {
      for (const bool reshards : {true, false}) {
        SCOPED_TRACE(std::to_string(bucket_mb) + (reshards ? " reshards" : ""));
        CopiedShards sharded(group, 3, true, reshards, bucket_mb), known(group, 2, true, true, bucket_mb);
        for (int step = 0; step < test_size(2, 4); ++step) {  // a second each: some fifty messages
          std::vector<at::Tensor> outputs;
          for (CopiedShards* each : {&sharded, &known}) {
            outputs.push_back(each->evaluate(group->rank(), step));
            each->step(group->rank(), step);
            outputs.push_back(each->evaluate(group->rank(), step));
            each->ddp.fused_step().unshard();
            outputs.push_back(each->evaluate(group->rank(), step + 1));
            each->ddp.fused_step().reshard();
          }
          for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(torch::equal(outputs[i], outputs[i + 3])) << step << i;
        }
        expect_equal_bits(sharded.weights(), known.weights());
        sharded.ddp.fused_step().unfuse();
        for (CopiedShards* each : {&sharded, &known}) each->step(group->rank(), 9);
        expect_equal_bits(sharded.weights(), known.weights());
      }
    }
  });
}

// The ranks gather a weight that nobody has read yet in fp32, and learn how it was read.
TEST_P(Stage3Bf16, ARankMayReadAWeightThatOthersDoNot) {
  on_ranks_of(GetParam(), 3, [](const Group& group) {
    CopiedShards sharded(group, 3), known(group, 2);
    for (CopiedShards* each : {&sharded, &known}) {
      each->step(group->rank(), 0, false);
      each->step(group->rank(), 1, false);
      each->step(group->rank(), 2, group->rank() == 1);
      each->step(group->rank(), 3, true);
      each->step(group->rank(), 4, group->rank() == 0);
    }
    expect_equal_bits(sharded.weights(), known.weights());
  });
}

// The tied table is read in both ways in each step, and the penalty reads a matrix in fp32 in some.
TEST_P(Stage3Bf16, WeightsThatAreReadInBf16CanBeReadInFp32) {
  on_ranks_of(GetParam(), 3, [](const Group& group) {
    for (const bool reshards : {true, false}) {
      CopiedShards sharded(group, 3, true, reshards), known(group, 2);
      for (CopiedShards* each : {&sharded, &known}) {
        for (int step = 0; step < 6; ++step) {
          each->model->has_penalty = step == 2 || step == 3 || step == 5;
          each->step(group->rank(), step);
        }
      }
      expect_equal_bits(sharded.weights(), known.weights());
    }
  });
}

TEST_P(Stage3Bf16, TakesOverWhatIsWritten) {
  on_ranks_of(GetParam(), 3, [](const Group& group) {
    CopiedShards sharded(group, 3), known(group, 2);
    std::vector<at::Tensor> outputs;
    for (CopiedShards* each : {&sharded, &known}) {
      for (int step = 0; step < 2; ++step) each->step(group->rank(), step);
      each->optimizer.zero_grad();
      each->ddp.fused_step().unshard();
      {
        const torch::NoGradGuard no_grad;
        each->block(1)->query->weight().mul_(0.5);
        each->block(0)->branch->weight().mul_(3);
        each->block(2)->norm->parameters()[0].data().add_(1);
        each->block(3)->value->weight().view({-1})[37] = 2;  // one element
        each->model->table.set_data(seeded({kTokens, kCopiedWidth}, 99));
      }
      outputs.push_back(each->evaluate(group->rank(), 2));
      each->ddp.fused_step().reshard();
      outputs.push_back(each->evaluate(group->rank(), 2));
      each->step(group->rank(), 2, /*takes_branch=*/false);  // takes the branch's weight over, and does not update it
      outputs.push_back(each->evaluate(group->rank(), 2));
      each->step(group->rank(), 3);
    }
    for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(torch::equal(outputs[i], outputs[i + 3])) << i;
    EXPECT_FALSE(torch::equal(outputs[0], torch::zeros_like(outputs[0])));
    expect_equal_bits(sharded.weights(), known.weights());
  });
}

TEST_P(Stage3Bf16, ACopyHasElementsInForwardAndBackwardAlone) {
  on_ranks_of(GetParam(), 2, [](const Group& group) {
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

}  // namespace
}  // namespace lockstep
