// Compares fused steps with unfused ones in everything besides the update: joining, scaling, clipping, 16 bits,
// buffers.
#include <gtest/gtest.h>

#include "lockstep/optim/adam.h"
#include "lockstep/optim/clip_grad_norm.h"
#include "lockstep/optim/grad_scaler.h"
#include "lockstep/optim/sgd.h"
#include "tests/parallel/fused/fuse_ranks.h"

namespace lockstep {
namespace {

using torch::nn::Linear;
using torch::optim::AdamOptions;
using torch::optim::SGDOptions;

class EngineFusedStep : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Engines, EngineFusedStep, ::testing::Values("thread", "gloo"),
                         [](const auto& test) { return std::string(test.param); });
INSTANTIATE_TEST_SUITE_P(EnginesLong, EngineFusedStep, ::testing::Values("shm"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(EngineFusedStep, JoinsRanksWithFewerInputs) {
  fuse_ranks(GetParam(), 3, [](Group group) {
    // Clipping hides what a gradient is divided by, so one training is not clipped.
    for (const auto& [by_initial, max_norm] : {std::pair(true, 0.7), std::pair(false, 0.7), std::pair(false, 0.0)}) {
      std::vector<at::Tensor> ends;
      for (const bool fused : {false, true}) {
        const Linear model = make_linear(20, 4);
        DistributedDataParallel ddp(model, fuse_on(group));
        SGD optimizer(model->parameters(), SGDOptions(0.01).momentum(0.9));
        if (fused) ddp.fuse(optimizer);
        JoinOptions join;
        join.divide_by_initial_world_size = by_initial;
        StepOptions clipped;
        clipped.max_norm = max_norm;
        ddp.join(
            [&] {
              for (int step = 0; step < 2 + 2 * group->rank(); ++step) {
                for (auto& parameter : model->parameters()) parameter.mutable_grad().reset();
                ddp(fuse_batch(group->rank(), step, 20)).pow(2).mean().backward();
                optimizer.step_with(clipped);
                // Ranks without inputs do not run this.
                auto& options = optimizer.param_groups()[0].options();
                options.set_lr(options.get_lr() * 0.9);
              }
            },
            join);
        ends.push_back(model->weight.detach().clone());
      }
      EXPECT_LE((ends[0] - ends[1]).abs().max().item<double>(), 1e-6) << by_initial << " " << max_norm;
    }
  });
}

TEST_P(EngineFusedStep, LeavesOutStepsWithInfiniteGradientsOnAllRanks) {
  fuse_ranks(GetParam(), 2, [](Group group) {
    std::vector<at::Tensor> ends;
    for (const bool fused : {false, true}) {
      const Linear model = make_linear(20, 4);
      DistributedDataParallel ddp(model, fuse_on(group));
      Adam optimizer(model->parameters(), AdamOptions(0.1));
      if (fused) ddp.fuse(optimizer);
      GradScaler scaler;
      std::vector<bool> skipped;
      for (int step = 0; step < 6; ++step) {
        at::Tensor input = fuse_batch(group->rank(), step, 20);
        const bool is_infinite = step == 2 || step == 5;  // without clipping, and with it
        if (is_infinite && group->rank() == 1) input[0][3] = INFINITY;
        scaler.scale(ddp(input).mean()).backward();
        StepOptions options;
        options.zero_grad = true;
        options.max_norm = step % 2 == 0 ? 0 : 1;
        skipped.push_back(scaler.step(optimizer, options).skipped);
        scaler.update();
        optimizer.zero_grad();
        EXPECT_EQ(model->weight.grad().count_nonzero().item<std::int64_t>(), 0);
      }
      EXPECT_EQ(skipped, (std::vector<bool>{false, false, true, false, false, true}));
      EXPECT_EQ(scaler.get_scale(), 16384);
      ends.push_back(model->weight.detach().clone());
    }
    EXPECT_LE((ends[0] - ends[1]).abs().max().item<double>(), 1e-6);
  });
}

TEST_P(EngineFusedStep, ClipsByTheNormOfTheAverage) {
  fuse_ranks(GetParam(), 3, [](Group group) {
    const double infinity = std::numeric_limits<double>::infinity();
    for (const double type : {2.0, 1.0, 3.0, infinity, 0.0}) {
      std::vector<double> norms;
      std::vector<at::Tensor> ends;
      for (const bool fused : {false, true}) {
        const Linear model = make_linear(20, 4);
        DistributedDataParallel ddp(model, fuse_on(group));
        SGD optimizer(model->parameters(), SGDOptions(0.1));
        if (fused) ddp.fuse(optimizer);
        ddp(fuse_batch(group->rank(), 1, 20)).pow(2).mean().backward();
        norms.push_back(clip_grad_norm_(optimizer, 0.3, type));
        optimizer.step();
        ends.push_back(model->weight.detach().clone());
      }
      EXPECT_NEAR(norms[0], norms[1], 1e-6 * norms[0]) << type;
      EXPECT_LE((ends[0] - ends[1]).abs().max().item<double>(), 1e-6) << type;
    }
  });
}

TEST_P(EngineFusedStep, RefusesANormThatIsNotFiniteAndLivesOn) {
  fuse_ranks(GetParam(), 2, [](Group group) {
    const Linear model = make_linear(20, 4);
    DistributedDataParallel ddp(model, fuse_on(group));
    SGD optimizer(model->parameters(), SGDOptions(0.1));
    ddp.fuse(optimizer);
    at::Tensor input = fuse_batch(0, 0, 20);
    if (group->rank() == 1) input[0][0] = NAN;
    ddp(input).sum().backward();
    EXPECT_NE(fuse_error([&] { clip_grad_norm_(optimizer, 1, 2, true); }).find("norm of order 2"), std::string::npos);
    group->barrier();
  });
}

TEST_P(EngineFusedStep, TrainsWithGradientsOfSixteenBits) {
  fuse_ranks(GetParam(), 2, [](Group group) {
    std::vector<at::Tensor> ends;
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      const Linear model = make_linear(20, 4);
      DistributedDataParallel ddp(model, fuse_on(group));
      SGD optimizer(model->parameters(), SGDOptions(0.01).momentum(0.9));
      FuseOptions options;
      options.gradient_dtype = dtype;
      ddp.fuse(optimizer, options);
      for (int step = 0; step < 5; ++step) {
        {
          const auto quiet = ddp.no_sync();
          ddp(fuse_batch(group->rank(), step, 20)).pow(2).mean().backward();
        }
        ddp(fuse_batch(group->rank(), step + 1, 20)).pow(2).mean().backward();
        StepOptions extras;
        extras.max_norm = 1;
        extras.zero_grad = true;
        optimizer.step_with(extras);
      }
      ends.push_back(model->weight.detach().clone());
    }
    const double scale = ends[0].abs().max().item<double>();
    EXPECT_LE((ends[0] - ends[1]).abs().max().item<double>(), 0.01 * scale);
    EXPECT_FALSE(torch::equal(ends[0], ends[1]));
  });
}

TEST_P(EngineFusedStep, KeepsBuffersAsWithoutFuse) {
  fuse_ranks(GetParam(), 2, [](Group group) {
    std::vector<at::Tensor> ends;
    for (const bool fused : {false, true}) {
      const Linear linear = make_linear(6, 5);
      torch::nn::Sequential model(linear, torch::nn::BatchNorm1d(5));
      DistributedDataParallel ddp(model, fuse_on(group));
      SGD optimizer(model->parameters(), SGDOptions(0.1));
      if (fused) ddp.fuse(optimizer);
      for (int step = 0; step < 3; ++step) {
        optimizer.zero_grad();
        ddp(fuse_batch(group->rank(), step, 6)).pow(2).mean().backward();
        optimizer.step();
      }
      ends.push_back(torch::cat({linear->weight.detach().view(-1), model->buffers()[0].detach()}));
    }
    EXPECT_TRUE(torch::equal(ends[0], ends[1]));
  });
}

class FusedSharedWeights : public EngineFusedStep {};

INSTANTIATE_TEST_SUITE_P(Engines, FusedSharedWeights, ::testing::Values("thread", "shm"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(FusedSharedWeights, AddsGradientsOfSixteenBitsInThirtyTwo) {
  fuse_ranks(GetParam(), 3, [](Group group) {
    for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
      const Linear model = make_linear(20, 4);
      const at::Tensor before = model->weight.detach().clone();
      DistributedDataParallel ddp(model, fuse_on(group));
      SGD optimizer(model->parameters(), SGDOptions(1));
      FuseOptions options;
      options.gradient_dtype = dtype;
      EXPECT_EQ(ddp.fuse(optimizer, options).mode(), FuseMode::SharedWeights);
      ddp(fuse_batch(group->rank(), 0, 20)).sum().backward();
      EXPECT_EQ(model->weight.grad().scalar_type(), dtype);
      optimizer.step();
      at::Tensor sum = torch::zeros_like(before);
      for (int rank = 0; rank < 3; ++rank) {
        const at::Tensor gradient = fuse_batch(rank, 0, 20).sum(0);  // of each output's row
        sum.add_(gradient.to(dtype).to(at::kFloat).expand({4, 20}));
      }
      EXPECT_TRUE(torch::equal(model->weight.detach(), before - sum / 3)) << dtype;
      ddp.fused_step().unfuse();
      EXPECT_EQ(model->weight.grad().scalar_type(), at::kFloat);
      for (auto& parameter : model->parameters()) parameter.mutable_grad().reset();
      ddp(fuse_batch(group->rank(), 0, 20)).sum().backward();
      at::Tensor average = fuse_batch(group->rank(), 0, 20).sum(0).expand({4, 20}).contiguous();
      group->all_reduce(average, ReduceOp::Avg);
      EXPECT_TRUE(torch::equal(model->weight.grad(), average));
      EXPECT_EQ(ddp.fuse(optimizer).mode(), FuseMode::SharedWeights);  // in the engine's memory again
    }
  });
}

TEST(FusedSteps, NobodyReadsWeightsThatAreHalfUpdated) {
  // Each step changes every weight from one round number to the next, so between two steps every rank must read one
  // number in all weights.
  fuse_ranks("shm", 3, [](Group group) {
    const Linear model(torch::nn::LinearOptions(256, 256).bias(false));
    model->weight.detach().fill_(0);
    DistributedDataParallel ddp(model, fuse_on(group));
    SGD optimizer(model->parameters(), SGDOptions(1));
    ddp.fuse(optimizer);
    for (int step = 0; step < 200; ++step) {
      EXPECT_TRUE(model->weight.eq(-step).all().item<bool>()) << step;
      model->weight.mutable_grad() = torch::ones_like(model->weight);
      optimizer.step();
    }
  });
}

}  // namespace
}  // namespace lockstep
