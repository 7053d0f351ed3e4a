// Tests of weights in shards (stage 3): what a program sees of them, and that steps have the bits of plain ones.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "lockstep/optim/adam.h"
#include "lockstep/optim/clip_grad_norm.h"
#include "lockstep/optim/sgd.h"
#include "tests/parallel/fused/fuse_ranks.h"
#include "tests/parallel/fused/stage3/stage3.h"

namespace lockstep {
namespace {

constexpr int kUnits = 6;
constexpr int kUnitWidth = 16;

// Numbered layers, which are units, between two others that share their weight.
struct LayeredNetImpl : torch::nn::Module {
  LayeredNetImpl() {
    first = register_module("first", make_linear(kUnitWidth, kUnitWidth));
    layers = register_module("layers", torch::nn::ModuleList());
    for (int i = 0; i < kUnits; ++i) layers->push_back(make_linear(kUnitWidth, kUnitWidth));
    last_bias = register_parameter("last_bias", torch::full({kUnitWidth}, 0.25));
    frozen = register_module("frozen", make_linear(kUnitWidth, kUnitWidth));
    frozen->weight.requires_grad_(false);
    norm = register_module("norm", torch::nn::BatchNorm1d(kUnitWidth));
  }
  torch::Tensor forward(torch::Tensor x, int skipped = -1) {
    x = norm(frozen(first(x)));
    for (int i = 0; i < kUnits; ++i) {
      if (i != skipped) x = x + torch::tanh(layers[i]->as<torch::nn::Linear>()->forward(x));
    }
    x = torch::tanh(layers[1]->as<torch::nn::Linear>()->forward(x));    // called twice
    return torch::nn::functional::linear(x, first->weight, last_bias);  // tied
  }
  torch::nn::Linear first{nullptr}, frozen{nullptr};
  torch::Tensor last_bias;
  torch::nn::ModuleList layers{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
};
TORCH_MODULE(LayeredNet);

FuseOptions stage_3() {
  FuseOptions how;
  how.stage = 3;
  how.share_weights = false;
  return how;
}

struct Stage3Subject {
  Stage3Subject(const Group& group, const FuseOptions* how) : ddp(model, buckets_of_a_parameter(group)) {
    if (how == nullptr) return;
    EXPECT_EQ(ddp.fuse(optimizer, *how).mode(), FuseMode::ShardedState) << ddp.fused_step().reason();
  }
  void step(int rank, int number) {
    optimizer.zero_grad();
    ddp(fuse_batch(rank, number, kUnitWidth)).pow(2).mean().backward();
    optimizer.step();
  }
  std::vector<at::Tensor> weights() { return gathered_weights(ddp); }

  LayeredNet model;
  DistributedDataParallel<LayeredNet> ddp;
  AdamW optimizer{model->parameters(), torch::optim::AdamWOptions(0.01)};
};

std::string torch_error(const std::function<void()>& body) {
  try {
    body();
  } catch (const c10::Error& error) {
    return error.what();
  }
  return "no error";
}

class Stage3 : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Engines, Stage3, ::testing::Values("thread"),
                         [](const auto& test) { return std::string(test.param); });
INSTANTIATE_TEST_SUITE_P(EnginesLong, Stage3, ::testing::Values("gloo", "tcp"),
                         [](const auto& test) { return std::string(test.param); });

// Tied and frozen weights, buffers, a layer that is called twice, and evaluations in between.
TEST_P(Stage3, HasTheBitsOfPlainSteps) {
  fuse_ranks(GetParam(), 3, [](const Group& group) {
    for (const bool reshards : {true, false}) {
      FuseOptions how = stage_3();
      how.reshard_after_forward = reshards;
      Stage3Subject sharded(group, &how), plain(group, nullptr);
      for (int step = 0; step < 4; ++step) {
        std::vector<at::Tensor> outputs;
        for (Stage3Subject* each : {&sharded, &plain}) {
          each->step(group->rank(), step);
          const torch::NoGradGuard no_grad;
          each->model->eval();
          outputs.push_back(each->ddp(fuse_batch(group->rank(), step, kUnitWidth)));
          each->model->train();
        }
        EXPECT_TRUE(torch::equal(outputs[0], outputs[1])) << step;
      }
      expect_equal_bits(sharded.weights(), plain.weights());
    }
  });
}

TEST_P(Stage3, ClipsAccumulatesAndIsUndone) {
  fuse_ranks(GetParam(), 2, [](const Group& group) {
    const FuseOptions how = stage_3();
    Stage3Subject sharded(group, &how), plain(group, nullptr);
    for (Stage3Subject* each : {&sharded, &plain}) {
      for (int step = 0; step < 3; ++step) {
        each->optimizer.zero_grad();
        {
          const auto quiet = each->ddp.no_sync();
          each->ddp(fuse_batch(group->rank(), 7 + step, kUnitWidth)).pow(2).mean().backward();
        }
        each->ddp(fuse_batch(group->rank(), step, kUnitWidth)).pow(2).mean().backward();
        each->optimizer.step();
      }
    }
    expect_equal_bits(sharded.weights(), plain.weights());
    sharded.ddp.fused_step().unfuse();
    EXPECT_EQ(sharded.ddp.fused_step().peak_weight_bytes(), 0);
    for (Stage3Subject* each : {&sharded, &plain}) each->step(group->rank(), 9);
    expect_equal_bits(sharded.weights(), plain.weights());  // every rank has all of them again
    EXPECT_EQ(sharded.ddp.fuse(sharded.optimizer, how).mode(), FuseMode::ShardedState);
    for (Stage3Subject* each : {&sharded, &plain}) {
      each->optimizer.zero_grad();
      each->ddp(fuse_batch(group->rank(), 3, kUnitWidth)).pow(2).mean().backward();
      EXPECT_NEAR(clip_grad_norm_(each->optimizer, 1e9), clip_grad_norm_(each->optimizer, 1e9), 1e-6);
      each->optimizer.step();
    }
    expect_equal_bits(sharded.weights(), plain.weights());
  });
}

// A share of the weights, what is in no unit, and two layers.
TEST_P(Stage3, HoldsNoMoreThanAShareAndTwoUnits) {
  fuse_ranks(GetParam(), 2, [](const Group& group) {
    const FuseOptions how = stage_3();
    Stage3Subject it(group, &how);
    for (int step = 0; step < 3; ++step) it.step(group->rank(), step);
    // With a bucket for each parameter. Vectors of 16 take 32 elements on two ranks: whole cache lines.
    const std::int64_t matrix = 4 * kUnitWidth * kUnitWidth, vector = 4 * 32;
    const std::int64_t layer = matrix + vector;
    const std::int64_t outside = matrix + 5 * vector;  // first, frozen's bias, norm, the last bias
    const std::int64_t all = kUnits * layer + outside;
    EXPECT_EQ(it.ddp.fused_step().peak_weight_bytes(), all / 2 + outside + 2 * layer);
  });
}

TEST_P(Stage3, ReadsOutsideOfForwardAreErrors) {
  fuse_ranks(GetParam(), 2, [](const Group& group) {
    const FuseOptions how = stage_3();
    Stage3Subject it(group, &how);
    it.step(group->rank(), 0);
    const at::Tensor weight = it.model->layers[2]->as<torch::nn::Linear>()->weight;
    EXPECT_NE(fuse_error([&] { weight.norm().item<double>(); }).find("layers.2.weight"), std::string::npos);
    EXPECT_NE(fuse_error([&] { weight.norm().item<double>(); }).find("unshard()"), std::string::npos);
    EXPECT_NE(fuse_error([&] { weight.detach().mul_(2); }).find("unshard()"), std::string::npos);
    EXPECT_NE(torch_error([&] { weight.data_ptr<float>(); }).find("storage"), std::string::npos);
    std::ostringstream file;
    EXPECT_NE(torch_error([&] { torch::save(weight, file); }).find("storage"), std::string::npos);
    EXPECT_EQ(weight.numel(), kUnitWidth * kUnitWidth);
    EXPECT_EQ(torch::zeros_like(weight).sum().item<double>(), 0);
    it.step(group->rank(), 1);  // the group lives on
    it.ddp.fused_step().unshard();
    EXPECT_TRUE(weight.norm().isfinite().item<bool>());
    it.ddp.fused_step().reshard();
    EXPECT_NE(fuse_error([&] { weight.norm().item<double>(); }).find("unshard()"), std::string::npos);
  });
}

// Written by hand on all ranks, in place or into other memory, and taken over by the next step.
TEST_P(Stage3, TakesOverWhatIsWritten) {
  fuse_ranks(GetParam(), 2, [](const Group& group) {
    const FuseOptions how = stage_3();
    Stage3Subject sharded(group, &how), plain(group, nullptr);
    for (Stage3Subject* each : {&sharded, &plain}) {
      each->step(group->rank(), 0);
      each->optimizer.zero_grad();
      each->ddp.fused_step().unshard();
      {
        const torch::NoGradGuard no_grad;
        each->model->layers[3]->as<torch::nn::Linear>()->weight.mul_(0.5);
        each->model->last_bias.data().add_(1);
        each->model->layers[4]->as<torch::nn::Linear>()->bias.set_data(torch::full({kUnitWidth}, 0.125));
      }
      each->ddp.fused_step().reshard();
      for (int step = 1; step < 3; ++step) each->step(group->rank(), step);
    }
    expect_equal_bits(sharded.weights(), plain.weights());
  });
}

// LibTorch gives a parameter that it loads other memory by set_, and leaves all else of the tensor as it is.
TEST_P(Stage3, TakesOverAFileThatEveryRankLoads) {
  fuse_ranks(GetParam(), 2, [](const Group& group) {
    std::stringstream file;
    torch::save(LayeredNet(), file);
    const FuseOptions how = stage_3();
    Stage3Subject sharded(group, &how), plain(group, nullptr);
    for (Stage3Subject* each : {&sharded, &plain}) {
      each->step(group->rank(), 0);
      each->optimizer.zero_grad();
      each->ddp.fused_step().unshard();
      std::stringstream again(file.str());
      torch::load(each->model, again);
      each->ddp.fused_step().reshard();
      for (int step = 1; step < 3; ++step) each->step(group->rank(), step);
    }
    expect_equal_bits(sharded.weights(), plain.weights());
  });
}

TEST_P(Stage3, RefusesWhatOneRankWrites) {
  fuse_ranks(GetParam(), 2, [](const Group& group) {
    const FuseOptions how = stage_3();
    Stage3Subject it(group, &how);
    it.ddp.fused_step().unshard();
    if (group->rank() == 1) {
      const torch::NoGradGuard no_grad;
      it.model->layers[0]->as<torch::nn::Linear>()->weight.mul_(0.5);
    }
    it.ddp.fused_step().reshard();
    const std::string error = fuse_error([&] { it.ddp(fuse_batch(group->rank(), 0, kUnitWidth)); });
    EXPECT_NE(error.find("have not written or loaded the same weights"), std::string::npos) << error;
  });
}

// Layers of equal size: without a check, a rank would compute with another layer's weights.
TEST_P(Stage3, RefusesRanksThatRunOtherLayers) {
  fuse_ranks(GetParam(), 2, [](const Group& group) {
    const FuseOptions how = stage_3();
    Stage3Subject it(group, &how);
    const int skipped = group->rank() == 1 ? 2 : -1;
    const std::string error = fuse_error([&] { it.ddp(fuse_batch(group->rank(), 0, kUnitWidth), skipped); });
    EXPECT_NE(error.find("layers."), std::string::npos) << error;
  });
}

TEST_P(Stage3, WeightsAreGoneWithTheWrapperUnlessTheyAreGathered) {
  fuse_ranks(GetParam(), 2, [](const Group& group) {
    for (const bool gathers : {true, false}) {
      at::Tensor weight;
      {
        const FuseOptions how = stage_3();
        Stage3Subject it(group, &how);
        it.step(group->rank(), 0);
        weight = it.model->layers[2]->as<torch::nn::Linear>()->weight;
        if (gathers) it.ddp.fused_step().unshard();
      }
      const std::string error = fuse_error([&] { weight.sum().item<double>(); });
      EXPECT_NE(error.find(gathers ? "no error" : "unfuse()"), std::string::npos) << error;
    }
  });
}

// As at the end of a training: weights for all ranks, and no rank holds the whole state of the optimizer.
TEST_P(Stage3, GivesWeightsBackWithoutTheState) {
  fuse_ranks(GetParam(), 2, [](const Group& group) {
    const FuseOptions how = stage_3();
    Stage3Subject sharded(group, &how), plain(group, nullptr);
    for (Stage3Subject* each : {&sharded, &plain}) each->step(group->rank(), 0);
    sharded.ddp.fused_step().unfuse_weights();
    EXPECT_EQ(sharded.ddp.fused_step().mode(), FuseMode::Off);
    expect_equal_bits(sharded.model->parameters(), plain.model->parameters());
    {
      const torch::NoGradGuard no_grad;
      at::Tensor weight = sharded.model->parameters()[0];
      weight.add_(group->rank());  // memory of its own
      group->barrier();
      EXPECT_TRUE(torch::equal(weight, plain.model->parameters()[0] + group->rank()));
      weight.copy_(plain.model->parameters()[0]);
    }
    sharded.ddp(fuse_batch(group->rank(), 0, kUnitWidth)).sum().backward();
    EXPECT_NE(fuse_error([&] { sharded.optimizer.step(); }), "no error");
  });
}

TEST_P(Stage3, RefusesJoin) {
  fuse_ranks(GetParam(), 2, [](const Group& group) {
    const FuseOptions how = stage_3();
    Stage3Subject it(group, &how);
    EXPECT_NE(fuse_error([&] { it.ddp.join([] {}); }).find("stage 3"), std::string::npos);
  });
}

TEST(Stage3Units, AreNamedByHandByTypeOrBySize) {
  fuse_ranks("thread", 2, [](const Group& group) {
    const auto peak = [&](const std::function<void(FuseOptions&)>& choose) {
      FuseOptions how = stage_3();
      choose(how);
      Stage3Subject it(group, &how);
      for (int step = 0; step < 2; ++step) it.step(group->rank(), step);
      return it.ddp.fused_step().peak_weight_bytes();
    };
    const std::int64_t layer = 4 * (kUnitWidth * kUnitWidth + 32);
    const std::int64_t two_layers = peak([](FuseOptions&) {});
    EXPECT_EQ(peak([](FuseOptions& how) { how.units = {"layers"}; }), two_layers + (kUnits - 2) * layer);
    // The layers, first and frozen; norm and the last bias are outside.
    const std::int64_t by_type = peak([](FuseOptions& how) { how.unit_types = {"Linear"}; });
    EXPECT_LT(by_type, two_layers);
    EXPECT_EQ(peak([](FuseOptions& how) { how.unit_min_params = kUnitWidth * kUnitWidth; }), by_type);
    const auto error = [&](const std::function<void(FuseOptions&)>& choose) {
      return fuse_error([&] { peak(choose); });
    };
    EXPECT_NE(error([](FuseOptions& how) { how.units = {"layer.0"}; }).find("layers.0"), std::string::npos);
    EXPECT_NE(error([](FuseOptions& how) { how.unit_types = {"Linaer"}; }).find("Linear"), std::string::npos);
  });
}

// Where ranks share memory there is one copy of the weights, and every rank may read it.
TEST(Stage3OneCopy, IsStage2) {
  fuse_ranks("thread", 2, [](const Group& group) {
    torch::nn::Linear model = make_linear(8, 4);
    DistributedDataParallel ddp(model, fuse_on(group));
    SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1));
    FuseOptions how = stage_3();
    how.share_weights = true;
    EXPECT_EQ(ddp.fuse(optimizer, how).mode(), FuseMode::SharedWeights);
    ddp(fuse_batch(group->rank(), 0, 8)).pow(2).mean().backward();
    optimizer.step();
    EXPECT_TRUE(model->weight.isfinite().all().item<bool>());
    EXPECT_EQ(ddp.fused_step().peak_weight_bytes(), 0);
  });
}

}  // namespace
}  // namespace lockstep
