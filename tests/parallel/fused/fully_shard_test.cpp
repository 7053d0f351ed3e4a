// Tests FullyShardedDataParallel: what its options choose, and that its steps have the bits of plain ones.
#include "lockstep/parallel/fully_sharded_data_parallel.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/optim/adam.h"
#include "lockstep/optim/clip_grad_norm.h"
#include "lockstep/optim/sgd.h"
#include "tests/parallel/fused/fuse_ranks.h"

namespace lockstep {
namespace {

constexpr int kBlocks = 4;
constexpr int kBlockWidth = 16;
constexpr std::int64_t kBlockBytes = 4 * (kBlockWidth * kBlockWidth + kBlockWidth);

struct StackedNetImpl : torch::nn::Module {
  StackedNetImpl() {
    const char* const names[] = {"one", "two", "three", "four"};
    for (int i = 0; i < kBlocks; ++i)
      blocks.push_back(register_module(names[i], make_linear(kBlockWidth, kBlockWidth)));
  }
  std::pair<torch::Tensor, torch::Tensor> forward(torch::Tensor x) {
    for (auto& block : blocks) x = x + torch::tanh(block->forward(x));
    return {x, torch::ones({1}, torch::kLong)};
  }
  std::vector<torch::nn::Linear> blocks;
};
TORCH_MODULE(StackedNet);

FullyShardOptions fully_shard_on(const Group& group) {
  FullyShardOptions options;
  options.process_group = group;
  options.bucket_cap_mb = 0.0001;  // a bucket for each parameter
  return options;
}

bool is_linear(const std::string&, const torch::nn::Module& module) {
  return module.as<torch::nn::Linear>() != nullptr;
}

// Two micro-batches in each update, the first without traffic; a norm that clips.
template <typename Wrapped, typename Sync>
void make_steps(Wrapped& wrapped, StackedNet& model, AdamW& optimizer, int rank, const Sync& sync) {
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    for (const bool is_last : {false, true}) {
      sync(is_last, [&] {
        wrapped(fuse_batch(rank, 2 * step + (is_last ? 1 : 0), kBlockWidth)).first.pow(2).mean().backward();
      });
    }
    clip_grad_norm_(model->parameters(), 0.5);
    optimizer.step();
  }
}

class FullyShard : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Engines, FullyShard, ::testing::Values("thread"),
                         [](const auto& test) { return std::string(test.param); });
INSTANTIATE_TEST_SUITE_P(EnginesLong, FullyShard, ::testing::Values("shm", "gloo", "tcp"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(FullyShard, HasTheBitsOfPlainSteps) {
  fuse_ranks(GetParam(), 2, [](const Group& group) {
    StackedNet sharded, plain;
    AdamW of_sharded(sharded->parameters(), torch::optim::AdamWOptions(0.01));
    AdamW of_plain(plain->parameters(), torch::optim::AdamWOptions(0.01));
    FullyShardOptions options = fully_shard_on(group);
    options.policy = is_linear;
    auto fsdp = fully_shard(sharded, of_sharded, options);
    DistributedDataParallelOptions as_much = fuse_on(group);
    as_much.bucket_cap_mb = options.bucket_cap_mb;
    DistributedDataParallel ddp(plain, as_much);
    make_steps(fsdp, sharded, of_sharded, group->rank(), [&](bool is_last, const std::function<void()>& body) {
      fsdp.set_requires_gradient_sync(is_last);
      body();
    });
    make_steps(ddp, plain, of_plain, group->rank(), [&](bool is_last, const std::function<void()>& body) {
      if (is_last) return body();
      const auto no_sync = ddp.no_sync();
      body();
    });
    fsdp.unshard();
    for (std::size_t i = 0; i < plain->parameters().size(); ++i) {
      EXPECT_TRUE(torch::equal(fsdp.parameters()[i], plain->parameters()[i])) << i;
    }
    fsdp.reshard();
    group->barrier();
  });
}

// Weights and biases have a bucket each, which is a multiple of a cache line for each rank.
TEST(FullyShardUnits, AreWhatTheOptionsName) {
  run_ranks_as_threads(2, [](const Membership& membership) {
    const Group group = make_communicator("tcp", membership);
    const auto peak = [&](const FullyShardOptions& options) {
      StackedNet model;
      SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.01));
      auto fsdp = fully_shard(model, optimizer, options);
      for (int step = 0; step < 2; ++step) {
        fsdp(fuse_batch(group->rank(), step, kBlockWidth)).first.pow(2).mean().backward();
        optimizer.step();
      }
      const std::int64_t bytes = fsdp.peak_weight_bytes();
      fsdp.ddp().fused_step().unfuse();
      return bytes;
    };
    const std::int64_t shares = kBlocks * (4 * kBlockWidth * kBlockWidth / 2 + 64);
    const std::int64_t block = 4 * kBlockWidth * kBlockWidth + 128;
    FullyShardOptions options = fully_shard_on(group);
    EXPECT_EQ(peak(options), shares + kBlocks * block) << "nothing is numbered, so all is outside of units";
    options.policy = is_linear;
    EXPECT_EQ(peak(options), shares + 2 * block);
    options.reshard_after_forward = false;
    EXPECT_EQ(peak(options), shares + kBlocks * block);
    options = fully_shard_on(group);
    options.units = {"one", "three"};
    EXPECT_EQ(peak(options), shares + 4 * block) << "two and four are outside";
    options.unit_types = {"Linear"};
    EXPECT_EQ(peak(options), shares + 2 * block);
    options = fully_shard_on(group);
    options.unit_min_params = kBlockBytes / 4;
    EXPECT_EQ(peak(options), shares + 2 * block);
  });
}

// Layers of such a model have names of their own, as most C++ modules have.
TEST(FullyShardUnits, AreMissedInTheLogIfThereAreNone) {
  for (const char* engine : {"tcp", "thread"}) {
    for (const bool names_units : {false, true}) {
      ::testing::internal::CaptureStderr();
      fuse_ranks(engine, 2, [&](const Group& group) {
        StackedNet model;
        SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.01));
        FullyShardOptions options = fully_shard_on(group);
        if (names_units) options.unit_types = {"Linear"};
        auto fsdp = fully_shard(model, optimizer, options);
        fsdp.ddp().fused_step().unfuse();
      });
      const std::string log = ::testing::internal::GetCapturedStderr();
      const bool has_shards = std::string(engine) == "tcp";
      EXPECT_EQ(log.find("no submodule is a unit") != std::string::npos, has_shards && !names_units) << log;
    }
  }
}

TEST(FullyShardPrecision, ComputesAndAnswersInTheTypesOfThePolicy) {
  run_ranks_as_threads(2, [](const Membership& membership) {
    const Group group = make_communicator("tcp", membership);
    StackedNet model, plain;
    SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.01));
    FullyShardOptions options = fully_shard_on(group);
    options.policy = is_linear;
    options.mp_policy.param_dtype = torch::kBFloat16;
    options.mp_policy.output_dtype = torch::kDouble;
    auto fsdp = fully_shard(model, optimizer, options);
    const auto [got, number] = fsdp(fuse_batch(0, 0, kBlockWidth));
    const at::Tensor want = [&] {
      const Autocast autocast(c10::DeviceType::CPU, at::kBFloat16, true);
      return plain(fuse_batch(0, 0, kBlockWidth)).first;
    }();
    EXPECT_EQ(number.scalar_type(), at::kLong) << "a number is left alone";
    EXPECT_EQ(got.scalar_type(), at::kDouble);
    EXPECT_TRUE(torch::equal(got, want.to(at::kDouble)));
    EXPECT_FALSE(torch::equal(want, plain(fuse_batch(0, 0, kBlockWidth)).first)) << "bf16 rounds";
    got.pow(2).mean().backward();
    optimizer.step();
    group->barrier();
  });
}

constexpr int kSquares = 10;
constexpr std::int64_t kSquareSide = 32;

struct SquaresImpl : torch::nn::Module {
  SquaresImpl() : layers(register_module("layers", torch::nn::ModuleList())) {
    for (int i = 0; i < kSquares; ++i) {
      layers->push_back(torch::nn::Linear(torch::nn::LinearOptions(kSquareSide, kSquareSide).bias(false)));
    }
  }
  at::Tensor forward(at::Tensor x) {
    for (const auto& layer : *layers) x = layer->as<torch::nn::Linear>()->forward(x);
    return x;
  }
  torch::nn::ModuleList layers;
};
TORCH_MODULE(Squares);

struct Bf16Squares {
  explicit Bf16Squares(const Group& group) : fsdp(model, optimizer, bf16_on(group)) {}
  static FullyShardOptions bf16_on(const Group& group) {
    FullyShardOptions options = fully_shard_on(group);
    options.mp_policy.param_dtype = torch::kBFloat16;
    return options;
  }
  Squares model;
  AdamW optimizer{model->parameters(), torch::optim::AdamWOptions(0.01)};
  FullyShardedDataParallel<Squares> fsdp;
};

// Matrices alone, one in each unit, so that bytes can be counted by hand: in fp32 a unit would have twice as many.
TEST(FullyShardPrecision, GathersLayersOfLibTorchInBf16) {
  run_ranks_as_threads(2, [](const Membership& membership) {
    const Group group = make_communicator("tcp", membership);
    Bf16Squares squares(group);
    for (int step = 0; step < 4; ++step) {
      squares.fsdp(fuse_batch(group->rank(), step, kSquareSide)).to(torch::kFloat).pow(2).sum().backward();
      squares.optimizer.step();
      squares.optimizer.zero_grad();
    }
    const std::int64_t matrix = kSquareSide * kSquareSide;
    const std::int64_t shard = 4 * kSquares * matrix / 2, copies = 2 * kSquares * matrix / 2;
    // The unit that is used and what has arrived of it, and what arrives of the next one.
    EXPECT_EQ(squares.fsdp.peak_weight_bytes(), shard + copies + 3 * 2 * matrix);
    group->barrier();
  });
}

// Each forward lets members of the layers stand for copies, and must find the parameters there.
TEST(FullyShardPrecision, ForwardsInSeveralThreadsWaitForEachOther) {
  run_ranks_as_threads(1, [](const Membership& membership) {
    const Group group = make_communicator("", membership);
    Bf16Squares squares(group);
    const auto evaluate = [&] {
      const torch::NoGradGuard no_grad;
      return squares.fsdp(fuse_batch(0, 0, kSquareSide));
    };
    const at::Tensor want = evaluate();
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int k = 0; k < 50; ++k) wrong += torch::equal(evaluate(), want) ? 0 : 1;
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
    for (const auto& layer : *squares.model->layers) {
      EXPECT_TRUE(layer->as<torch::nn::Linear>()->weight.is_same(layer->parameters()[0]));
    }
  });
}

TEST(FullyShardErrors, NameWhatIsWrong) {
  run_ranks_as_threads(2, [](const Membership& membership) {
    const Group group = make_communicator("tcp", membership);
    const auto error_with = [&](const std::function<void(FullyShardOptions&)>& change, bool has_fp16_weights = false) {
      StackedNet model;
      if (has_fp16_weights) model->to(torch::kHalf);
      SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.01));
      FullyShardOptions options = fully_shard_on(group);
      change(options);
      return fuse_error([&] { fully_shard(model, optimizer, options); });
    };
    const auto has = [](const std::string& text, const char* part) {
      EXPECT_NE(text.find(part), std::string::npos) << text;
    };
    has(error_with([](FullyShardOptions& options) { options.units = {"thre"}; }), "did you mean 'three'");
    has(error_with([](FullyShardOptions& options) {
          options.policy = [](const std::string&, const torch::nn::Module&) { return false; };
        }),
        "the policy chooses no submodule");
    has(error_with([](FullyShardOptions& options) { options.ignored_params = {"two.weigth"}; }),
        "did you mean 'two.weight'");
    has(error_with([](FullyShardOptions& options) { options.unit_min_params = -1; }), "unit_min_params is -1");
    has(error_with([](FullyShardOptions& options) { options.mp_policy.param_dtype = torch::kHalf; }),
        "param_dtype is Half");
    has(error_with([](FullyShardOptions& options) { options.mp_policy.output_dtype = torch::kLong; }),
        "output_dtype is Long");
    has(error_with([](FullyShardOptions& options) {
          options.sharding_strategy = ShardingStrategy::ShardGradOp;
          options.unit_types = {"Linear"};
        }),
        "ShardGradOp cannot be combined with units");
    has(error_with([](FullyShardOptions&) {}, true), "nothing can be sharded");
    StackedNet model;
    SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.01));
    auto fsdp = fully_shard(model, optimizer, fully_shard_on(group));
    has(fuse_error([&] { fully_shard(model, optimizer, fully_shard_on(group)); }),
        "parameter \"one.weight\" is already sharded by an earlier wrapper");
    fsdp.ddp().fused_step().unfuse();
    EXPECT_EQ(fuse_error([&] { fully_shard(model, optimizer, fully_shard_on(group)).ddp().fused_step().unfuse(); }),
              "no error");
    group->barrier();
  });
}

}  // namespace
}  // namespace lockstep
