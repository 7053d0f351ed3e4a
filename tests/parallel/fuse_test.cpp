// What a fused optimizer promises beside equal results: one copy, shares of the state, ways in and out, errors.
#include <gtest/gtest.h>
#include <signal.h>
#include <torch/script.h>
#include <torch/torch.h>
#include <unistd.h>

#include <atomic>

#include "lockstep/base/error.h"
#include "lockstep/comm/factory.h"
#include "lockstep/optim/adam.h"
#include "lockstep/optim/clip_grad_norm.h"
#include "lockstep/optim/grad_scaler.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

using torch::nn::Linear;
using torch::optim::AdamOptions;
using torch::optim::SGDOptions;
using Group = std::shared_ptr<Communicator>;

DistributedDataParallelOptions fuse_on(Group group) {
  DistributedDataParallelOptions options;
  options.process_group = std::move(group);
  return options;
}

void fuse_ranks(const std::string& engine, int world_size, const std::function<void(Group)>& body) {
  const auto rank = [&](const Membership& membership) { body(make_communicator(engine, membership)); };
  if (engine == "shm") {
    run_ranks_as_processes(world_size, rank);
  } else {
    run_ranks_as_threads(world_size, rank);
  }
}

std::string fuse_error(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// The same on every rank, whatever other threads draw.
Linear make_linear(int in, int out) {
  Linear model(in, out);
  const torch::NoGradGuard no_grad;
  int next = 1;
  for (auto& parameter : model->parameters()) {
    parameter.copy_(torch::linspace(-0.5, 0.5 / next++, parameter.numel()).view(parameter.sizes()));
  }
  return model;
}

torch::Tensor fuse_batch(int rank, int step, int width) {
  return torch::linspace(-1 - rank, 1 + step, 2 * width).view({2, width});
}

// Elements of optimizer state that this rank keeps.
std::int64_t state_elements(const FlatOptimizer& optimizer, const NamedParameters& names) {
  std::int64_t count = 0;
  for (const auto& [name, state] : optimizer.named_state(names)) {
    for (const auto& [kind, tensor] : state.tensors) count += tensor.numel();
  }
  return count;
}

class FuseEngine : public ::testing::TestWithParam<const char*> {};

TEST_P(FuseEngine, KeepsOneCopyOfTheWeightsAndAShareOfTheState) {
  fuse_ranks(GetParam(), 2, [](Group group) {
    const Linear model = make_linear(64, 32);
    DistributedDataParallel ddp(model, fuse_on(group));
    Adam optimizer(model->parameters(), AdamOptions(0.1));
    const FuseMode mode = ddp.fuse(optimizer);
    EXPECT_EQ(ddp.fuse_mode(), mode);
    EXPECT_EQ(ddp.fuse_reason(), "");
    ddp(fuse_batch(group->rank(), 0, 64)).sum().backward();
    optimizer.step();
    // 64 * 32 + 32 elements, of which each rank has half; two buffers of them.
    EXPECT_EQ(state_elements(optimizer, ddp.named_parameters()), 64 * 32 + 32);
    EXPECT_TRUE(optimizer.state().empty());

    const bool shared = mode == FuseMode::SharedWeights;
    EXPECT_EQ(shared, std::string(group->engine()) != "gloo");
    group->barrier();
    if (group->rank() == 0) model->weight.detach().fill_(42);
    group->barrier();
    EXPECT_EQ(model->weight.eq(42).all().item<bool>(), shared || group->rank() == 0);
  });
}

TEST_P(FuseEngine, LeavesWholeMemoryWhenTheWrapperGoesFirst) {
  fuse_ranks(GetParam(), 2, [](Group group) {
    const Linear model = make_linear(8, 4);
    Adam optimizer(model->parameters(), AdamOptions(0.1));
    {
      DistributedDataParallel ddp(model, fuse_on(group));
      ddp.fuse(optimizer);
      ddp(fuse_batch(group->rank(), 0, 8)).sum().backward();
      optimizer.step();
    }
    const at::Tensor before = model->weight.detach().clone();
    group->barrier();
    model->weight.detach().add_(group->rank());
    group->barrier();
    EXPECT_TRUE(torch::equal(model->weight.detach(), before + group->rank()));
    EXPECT_NE(fuse_error([&] { optimizer.step(); }).find("part of the optimizer's state"), std::string::npos);
  });
}

TEST_P(FuseEngine, LeavesWholeMemoryWhenTheOptimizerGoesFirst) {
  fuse_ranks(GetParam(), 2, [](Group group) {
    const Linear model = make_linear(8, 4);
    DistributedDataParallel ddp(model, fuse_on(group));
    {
      Adam optimizer(model->parameters(), AdamOptions(0.1));
      ddp.fuse(optimizer);
      ddp(fuse_batch(group->rank(), 0, 8)).sum().backward();
      optimizer.step();
    }
    EXPECT_EQ(ddp.fuse_mode(), FuseMode::Off);
    for (auto& parameter : model->parameters()) parameter.mutable_grad().reset();
    ddp(fuse_batch(group->rank(), 1, 8)).sum().backward();  // averages again
    const at::Tensor mine = model->weight.grad().clone();
    at::Tensor average = mine.clone();
    group->all_reduce(average, ReduceOp::Avg);
    EXPECT_TRUE(torch::equal(mine, average));
    model->weight.detach().fill_(group->rank());
    group->barrier();
    EXPECT_TRUE(model->weight.eq(group->rank()).all().item<bool>());
    Adam another(model->parameters(), AdamOptions(0.1));
    EXPECT_NE(ddp.fuse(another), FuseMode::Off);
  });
}

TEST_P(FuseEngine, GoesOnUnfusedWithAllOfTheState) {
  fuse_ranks(GetParam(), 3, [](Group group) {
    std::vector<std::vector<at::Tensor>> ends;
    for (const bool fused : {false, true}) {
      const Linear model = make_linear(40, 4);
      DistributedDataParallel ddp(model, fuse_on(group));
      AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(0.1));
      for (int step = 0; step < 6; ++step) {
        if (fused && step == 2) {
          EXPECT_NE(ddp.fuse(optimizer), FuseMode::Off);  // with state that is there already
        }
        if (step == 4) ddp.unfuse();
        for (auto& parameter : model->parameters()) parameter.mutable_grad().reset();
        ddp(fuse_batch(group->rank(), step, 40)).pow(2).mean().backward();
        optimizer.step();
      }
      EXPECT_EQ(ddp.fuse_mode(), FuseMode::Off);
      EXPECT_FALSE(optimizer.is_sharded());
      EXPECT_EQ(state_elements(optimizer, ddp.named_parameters()), 2 * (40 * 4 + 4));
      ends.push_back({model->weight.detach().clone(), model->bias.detach().clone()});
    }
    EXPECT_TRUE(torch::equal(ends[0][0], ends[1][0]));
    EXPECT_TRUE(torch::equal(ends[0][1], ends[1][1]));
  });
}

TEST_P(FuseEngine, SavesStateThatAnyNumberOfRanksCanLoad) {
  NamedState saved;
  std::vector<at::Tensor> weights;
  const auto train = [](auto& ddp, FlatOptimizer& optimizer, int rank, int first, int last) {
    for (int step = first; step < last; ++step) {
      for (const auto& [name, parameter] : ddp.named_parameters()) at::Tensor(parameter).mutable_grad().reset();
      ddp(fuse_batch(rank, step, 40)).pow(2).mean().backward();
      optimizer.step();
    }
  };
  // All ranks see the same data, so that their number does not matter.
  run_ranks_as_threads(2, [&](const Membership& membership) {
    const Group group = make_communicator(std::string(GetParam()) == "gloo" ? "gloo" : "thread", membership);
    const Linear model = make_linear(40, 4);
    DistributedDataParallel ddp(model, fuse_on(group));
    Adam optimizer(model->parameters(), AdamOptions(0.1));
    ddp.fuse(optimizer);
    train(ddp, optimizer, 0, 0, 3);
    NamedState state = ddp.optimizer_state(optimizer);
    EXPECT_EQ(state.at("weight").step, 3);
    EXPECT_TRUE(state.at("weight").is_whole());
    if (group->rank() == 0) {
      saved = std::move(state);
      for (auto& parameter : model->parameters()) weights.push_back(parameter.detach().clone());
    }
    group->barrier();
  });
  for (const int ranks : {1, 3}) {
    fuse_ranks(GetParam(), ranks, [&](Group group) {
      std::vector<at::Tensor> ends;
      for (const bool fused : {false, true}) {
        const Linear model = make_linear(40, 4);
        DistributedDataParallel ddp(model, fuse_on(group));
        Adam optimizer(model->parameters(), AdamOptions(0.1));
        if (fused) ddp.fuse(optimizer);
        {
          const torch::NoGradGuard no_grad;
          for (std::size_t i = 0; i < weights.size(); ++i) model->parameters()[i].copy_(weights[i]);
        }
        optimizer.load_named_state(ddp.named_parameters(), saved);
        group->barrier();
        train(ddp, optimizer, 0, 3, 6);
        ends.push_back(model->weight.detach().clone());
      }
      EXPECT_TRUE(torch::equal(ends[0], ends[1])) << ranks << " ranks";
    });
  }
}

TEST_P(FuseEngine, JoinsRanksWithFewerInputs) {
  fuse_ranks(GetParam(), 3, [](Group group) {
    for (const bool by_initial : {true, false}) {
      std::vector<at::Tensor> ends;
      for (const bool fused : {false, true}) {
        const Linear model = make_linear(20, 4);
        DistributedDataParallel ddp(model, fuse_on(group));
        Sgd optimizer(model->parameters(), SGDOptions(0.01).momentum(0.9));
        if (fused) ddp.fuse(optimizer);
        JoinOptions join;
        join.divide_by_initial_world_size = by_initial;
        StepOptions clipped;
        clipped.max_norm = 0.7;
        ddp.join(
            [&] {
              for (int step = 0; step < 2 + 2 * group->rank(); ++step) {
                for (auto& parameter : model->parameters()) parameter.mutable_grad().reset();
                ddp(fuse_batch(group->rank(), step, 20)).pow(2).mean().backward();
                optimizer.step_with(clipped);
                // Ranks without inputs do not see this.
                auto& options = optimizer.param_groups()[0].options();
                options.set_lr(options.get_lr() * 0.9);
              }
            },
            join);
        ends.push_back(model->weight.detach().clone());
      }
      EXPECT_LE((ends[0] - ends[1]).abs().max().item<double>(), 1e-6) << by_initial;
    }
  });
}

TEST_P(FuseEngine, LeavesOutStepsWithInfiniteGradientsOnAllRanks) {
  fuse_ranks(GetParam(), 2, [](Group group) {
    std::vector<at::Tensor> ends;
    for (const bool fused : {false, true}) {
      const Linear model = make_linear(20, 4);
      DistributedDataParallel ddp(model, fuse_on(group));
      Adam optimizer(model->parameters(), AdamOptions(0.1));
      if (fused) ddp.fuse(optimizer);
      GradScaler scaler;
      std::vector<bool> skipped;
      for (int step = 0; step < 4; ++step) {
        at::Tensor input = fuse_batch(group->rank(), step, 20);
        if (step == 2 && group->rank() == 1) input[0][3] = INFINITY;
        scaler.scale(ddp(input).mean()).backward();
        StepOptions options;
        options.zero_grad = true;
        options.max_norm = step % 2 == 0 ? 0 : 1;
        skipped.push_back(scaler.step(optimizer, options).skipped);
        scaler.update();
        optimizer.zero_grad();
        EXPECT_EQ(model->weight.grad().count_nonzero().item<std::int64_t>(), 0);
      }
      EXPECT_EQ(skipped, (std::vector<bool>{false, false, true, false}));
      EXPECT_EQ(scaler.get_scale(), 32768);
      ends.push_back(model->weight.detach().clone());
    }
    EXPECT_LE((ends[0] - ends[1]).abs().max().item<double>(), 1e-6);
  });
}

TEST_P(FuseEngine, ClipsByTheNormOfTheAverage) {
  fuse_ranks(GetParam(), 3, [](Group group) {
    const double infinity = std::numeric_limits<double>::infinity();
    for (const double type : {2.0, 1.0, 3.0, infinity, 0.0}) {
      std::vector<double> norms;
      std::vector<at::Tensor> ends;
      for (const bool fused : {false, true}) {
        const Linear model = make_linear(20, 4);
        DistributedDataParallel ddp(model, fuse_on(group));
        Sgd optimizer(model->parameters(), SGDOptions(0.1));
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

TEST_P(FuseEngine, RefusesANormThatIsNotFiniteAndLivesOn) {
  fuse_ranks(GetParam(), 2, [](Group group) {
    const Linear model = make_linear(20, 4);
    DistributedDataParallel ddp(model, fuse_on(group));
    Sgd optimizer(model->parameters(), SGDOptions(0.1));
    ddp.fuse(optimizer);
    at::Tensor input = fuse_batch(0, 0, 20);
    if (group->rank() == 1) input[0][0] = NAN;
    ddp(input).sum().backward();
    EXPECT_NE(fuse_error([&] { clip_grad_norm_(optimizer, 1, 2, true); }).find("norm of order 2"), std::string::npos);
    group->barrier();
  });
}

class FuseSharedWeights : public FuseEngine {};

TEST_P(FuseSharedWeights, AddsGradientsOfSixteenBitsInThirtyTwo) {
  fuse_ranks(GetParam(), 3, [](Group group) {
    for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
      const Linear model = make_linear(20, 4);
      const at::Tensor before = model->weight.detach().clone();
      DistributedDataParallel ddp(model, fuse_on(group));
      Sgd optimizer(model->parameters(), SGDOptions(1));
      FuseOptions options;
      options.gradient_dtype = dtype;
      EXPECT_EQ(ddp.fuse(optimizer, options), FuseMode::SharedWeights);
      ddp(fuse_batch(group->rank(), 0, 20)).sum().backward();
      EXPECT_EQ(model->weight.grad().scalar_type(), dtype);
      optimizer.step();
      at::Tensor sum = torch::zeros_like(before);
      for (int rank = 0; rank < 3; ++rank) {
        const at::Tensor gradient = fuse_batch(rank, 0, 20).sum(0);  // of each output's row
        sum.add_(gradient.to(dtype).to(at::kFloat).expand({4, 20}));
      }
      EXPECT_TRUE(torch::equal(model->weight.detach(), before - sum / 3)) << dtype;
      ddp.unfuse();
      EXPECT_EQ(model->weight.grad().scalar_type(), at::kFloat);
      for (auto& parameter : model->parameters()) parameter.mutable_grad().reset();
      ddp(fuse_batch(group->rank(), 0, 20)).sum().backward();
      at::Tensor average = fuse_batch(group->rank(), 0, 20).sum(0).expand({4, 20}).contiguous();
      group->all_reduce(average, ReduceOp::Avg);
      EXPECT_TRUE(torch::equal(model->weight.grad(), average));
      EXPECT_EQ(ddp.fuse(optimizer), FuseMode::SharedWeights);  // in memory of the engine again
    }
  });
}

TEST_P(FuseEngine, TrainsWithGradientsOfSixteenBits) {
  fuse_ranks(GetParam(), 2, [](Group group) {
    std::vector<at::Tensor> ends;
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      const Linear model = make_linear(20, 4);
      DistributedDataParallel ddp(model, fuse_on(group));
      Sgd optimizer(model->parameters(), SGDOptions(0.01).momentum(0.9));
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

TEST_P(FuseEngine, KeepsBuffersAsWithoutFuse) {
  fuse_ranks(GetParam(), 2, [](Group group) {
    std::vector<at::Tensor> ends;
    for (const bool fused : {false, true}) {
      const Linear linear = make_linear(6, 5);
      torch::nn::Sequential model(linear, torch::nn::BatchNorm1d(5));
      DistributedDataParallel ddp(model, fuse_on(group));
      Sgd optimizer(model->parameters(), SGDOptions(0.1));
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

class FuseInProcesses : public FuseEngine {};

TEST_P(FuseInProcesses, NamesARankThatDiesBetweenSteps) {
  const auto ends = ranks_as_processes(3, [](const Membership& membership) {
    const Group group = make_communicator(GetParam(), membership);
    const Linear model = make_linear(20, 4);
    DistributedDataParallel ddp(model, fuse_on(group));
    Adam optimizer(model->parameters(), AdamOptions(0.1));
    ddp.fuse(optimizer);
    for (int step = 0; step < 3; ++step) {
      ddp(fuse_batch(group->rank(), step, 20)).sum().backward();
      if (step == 2 && group->rank() == 1) ::kill(::getpid(), SIGKILL);
      optimizer.step();
    }
  });
  EXPECT_EQ(ends[1].signal, SIGKILL);
  for (const int rank : {0, 2}) {
    EXPECT_TRUE(ends[static_cast<std::size_t>(rank)].failed);
    EXPECT_NE(ends[static_cast<std::size_t>(rank)].text.find("rank 1"), std::string::npos)
        << ends[static_cast<std::size_t>(rank)].text;
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, FuseSharedWeights, ::testing::Values("thread", "shm"),
                         [](const auto& test) { return std::string(test.param); });
INSTANTIATE_TEST_SUITE_P(Engines, FuseInProcesses, ::testing::Values("shm", "gloo"),
                         [](const auto& test) { return std::string(test.param); });
INSTANTIATE_TEST_SUITE_P(Engines, FuseEngine, ::testing::Values("thread", "shm", "gloo"),
                         [](const auto& test) { return std::string(test.param); });

TEST(Fuse, TellsWhyItChangesNothing) {
  fuse_ranks("thread", 2, [](Group group) {
    const Linear model = make_linear(4, 4);
    DistributedDataParallel ddp(model, fuse_on(group));
    ddp.register_comm_hook(fp16_compress_hook());
    Sgd optimizer(model->parameters(), SGDOptions(0.1));
    EXPECT_EQ(ddp.fuse(optimizer), FuseMode::Off);
    EXPECT_NE(ddp.fuse_reason().find("communication hook"), std::string::npos);
    ddp(fuse_batch(group->rank(), 0, 4)).sum().backward();
    optimizer.step();

    Linear half = make_linear(4, 4);
    half->to(torch::kBFloat16);
    DistributedDataParallel halves(half, fuse_on(group));
    Sgd half_optimizer(half->parameters(), SGDOptions(0.1));
    EXPECT_EQ(halves.fuse(half_optimizer), FuseMode::Off);
    EXPECT_NE(halves.fuse_reason().find("fp32"), std::string::npos);
  });
}

TEST(Fuse, RefusesWhatMakesNoSense) {
  fuse_ranks("thread", 2, [](Group group) {
    const Linear model = make_linear(4, 4);
    const Linear other = make_linear(4, 4);
    DistributedDataParallel ddp(model, fuse_on(group));
    Sgd stranger(other->parameters(), SGDOptions(0.1));
    EXPECT_NE(fuse_error([&] { ddp.fuse(stranger); }).find("none of the module's parameters"), std::string::npos);
    Sgd optimizer(model->parameters(), SGDOptions(0.1));
    ddp.fuse(optimizer);
    EXPECT_NE(fuse_error([&] { ddp.fuse(optimizer); }).find("fused already"), std::string::npos);
    EXPECT_NE(fuse_error([&] { ddp.register_comm_hook(noop_hook()); }).find("fused"), std::string::npos);
    GradScaler scaler;
    EXPECT_NE(fuse_error([&] { scaler.unscale_(optimizer); }).find("fused optimizer"), std::string::npos);
    torch::serialize::OutputArchive archive;
    EXPECT_NE(fuse_error([&] { optimizer.save(archive); }).find("named_state"), std::string::npos);
  });
}

TEST(Fuse, RefusesRanksWithOtherParameters) {
  fuse_ranks("thread", 2, [](Group group) {
    const Linear model = make_linear(4, 4);
    auto options = fuse_on(group);
    options.bucket_cap_mb = 0.00001;  // each parameter in a bucket of its own
    DistributedDataParallel ddp(model, options);
    std::vector<at::Tensor> parameters{model->weight};
    if (group->rank() == 0) parameters.push_back(model->bias);
    Sgd optimizer(parameters, SGDOptions(0.1));
    EXPECT_NE(fuse_error([&] { ddp.fuse(optimizer); }).find("bias"), std::string::npos);
  });
}

TEST(Fuse, NamesStepsThatDiffer) {
  fuse_ranks("thread", 2, [](Group group) {
    const Linear model = make_linear(4, 4);
    DistributedDataParallel ddp(model, fuse_on(group));
    Sgd optimizer(model->parameters(), SGDOptions(0.1));
    ddp.fuse(optimizer);
    ddp(fuse_batch(group->rank(), 0, 4)).sum().backward();
    StepOptions options;
    options.max_norm = 1 + group->rank();
    EXPECT_NE(fuse_error([&] { optimizer.step_with(options); }).find("disagree"), std::string::npos);
  });
}

TEST(Fuse, NamesARankThatStepsWhileAnotherDoesNot) {
  fuse_ranks("thread", 2, [](Group group) {
    const Linear model = make_linear(4, 4);
    DistributedDataParallel ddp(model, fuse_on(group));
    Sgd optimizer(model->parameters(), SGDOptions(0.1));
    ddp.fuse(optimizer);
    const std::string text = fuse_error([&] {
      if (group->rank() == 0) {
        optimizer.step();
      } else {
        group->barrier();
      }
    });
    EXPECT_NE(text.find("disagree"), std::string::npos) << text;
  });
}

TEST(Fuse, NamesAParameterThatWasMoved) {
  fuse_ranks("thread", 1, [](Group group) {
    const Linear model = make_linear(4, 4);
    DistributedDataParallel ddp(model, fuse_on(group));
    Sgd optimizer(model->parameters(), SGDOptions(0.1));
    ddp.fuse(optimizer);
    ddp(fuse_batch(0, 0, 4)).sum().backward();
    model->bias.set_data(torch::zeros({4}));
    EXPECT_NE(fuse_error([&] { optimizer.step(); }).find("\"bias\" was moved"), std::string::npos);
  });
}

TEST(Fuse, ServesParametersOutsideTheOptimizerAsBefore) {
  fuse_ranks("thread", 2, [](Group group) {
    std::vector<at::Tensor> ends;
    for (const bool fused : {false, true}) {
      const Linear model = make_linear(20, 4);
      auto options = fuse_on(group);
      options.bucket_cap_mb = 0.00001;
      DistributedDataParallel ddp(model, options);
      Sgd optimizer(std::vector<at::Tensor>{model->weight}, SGDOptions(0.1));
      torch::optim::SGD rest({model->bias}, torch::optim::SGDOptions(0.1));
      if (fused) {
        EXPECT_EQ(ddp.fuse(optimizer), FuseMode::SharedWeights);
      }
      for (int step = 0; step < 3; ++step) {
        for (auto& parameter : model->parameters()) parameter.mutable_grad().reset();
        ddp(fuse_batch(group->rank(), step, 20)).pow(2).mean().backward();
        optimizer.step();
        rest.step();
      }
      EXPECT_EQ(ddp.last_step().buckets, 2U);
      ends.push_back(torch::cat({model->weight.detach().view(-1), model->bias.detach()}));
    }
    EXPECT_TRUE(torch::equal(ends[0], ends[1]));
  });
}

TEST(Fuse, NobodyReadsWeightsThatAreHalfUpdated) {
  // Every weight goes from one round number to the next in a step: whatever a rank reads between two steps is one of
  // them all over.
  fuse_ranks("shm", 3, [](Group group) {
    const Linear model(torch::nn::LinearOptions(256, 256).bias(false));
    model->weight.detach().fill_(0);
    DistributedDataParallel ddp(model, fuse_on(group));
    Sgd optimizer(model->parameters(), SGDOptions(1));
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
