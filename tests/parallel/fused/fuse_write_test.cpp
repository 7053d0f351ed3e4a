// Compares programs that write weights and gradients of a fused optimizer by hand with the same programs without fuse:
// bounds, averages that are swapped in, files that are loaded, other optimizers.
#include <gtest/gtest.h>

#include <sstream>

#include "lockstep/optim/adam.h"
#include "lockstep/optim/flatten.h"
#include "lockstep/optim/sgd.h"
#include "tests/parallel/fused/fuse_ranks.h"

namespace lockstep {
namespace {

using torch::nn::Linear;
using torch::optim::SGDOptions;

enum class Sharing { Shared, Sharded };

struct WriteCase {
  const char* name;
  const char* engine;
  Sharing sharing;
};

class FuseWrite : public ::testing::TestWithParam<WriteCase> {};

INSTANTIATE_TEST_SUITE_P(Engines, FuseWrite,
                         ::testing::Values(WriteCase{"thread_shared", "thread", Sharing::Shared},
                                           WriteCase{"thread_sharded", "thread", Sharing::Sharded},
                                           WriteCase{"shm_shared", "shm", Sharing::Shared}),
                         [](const auto& test) { return std::string(test.param.name); });
INSTANTIATE_TEST_SUITE_P(EnginesLong, FuseWrite, ::testing::Values(WriteCase{"gloo", "gloo", Sharing::Sharded}),
                         [](const auto& test) { return std::string(test.param.name); });

struct WrittenModel {
  WrittenModel(const Group& group, bool fused, Sharing sharing)
      : rank(group->rank()),
        model(make_linear(20, 4)),
        ddp(model, fuse_on(group)),
        optimizer(model->parameters(), SGDOptions(0.05).momentum(0.9)) {
    FuseOptions options;
    options.share_weights = sharing == Sharing::Shared;
    if (fused) {
      EXPECT_EQ(ddp.fuse(optimizer, options).mode(),
                sharing == Sharing::Shared ? FuseMode::SharedWeights : FuseMode::ShardedState);
    }
  }
  void backward(int step) { ddp(fuse_batch(rank, step, 20)).pow(2).mean().backward(); }
  at::Tensor weights() const { return torch::cat({model->weight.detach().flatten(), model->bias.detach()}).clone(); }
  std::vector<at::Tensor> values() const {
    std::vector<at::Tensor> all;
    for (const at::Tensor& parameter : model->parameters()) all.push_back(parameter.detach().clone());
    return all;
  }

  int rank;
  Linear model;
  DistributedDataParallel<Linear> ddp;
  SGD optimizer;
};

using Program = std::function<void(WrittenModel&)>;

// Runs `program` with and without fuse, and expects equal weights.
void expect_as_without_fuse(const WriteCase& param, int world_size, const Program& program) {
  fuse_ranks(param.engine, world_size, [&](Group group) {
    std::vector<at::Tensor> ends;
    for (const bool fused : {false, true}) {
      WrittenModel it(group, fused, param.sharing);
      program(it);
      ends.push_back(it.weights());
    }
    EXPECT_LE((ends[0] - ends[1]).abs().max().item<double>(), 1e-6);
  });
}

void expect_refused(const WriteCase& param, const Program& program, const std::vector<std::string>& parts) {
  fuse_ranks(param.engine, 2, [&](Group group) {
    WrittenModel it(group, true, param.sharing);
    const std::string text = fuse_error([&] { program(it); });
    for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << text;
  });
}

void train(WrittenModel& it, int step) {
  it.optimizer.zero_grad();
  it.backward(step);
  it.optimizer.step();
}

void write_values(WrittenModel& it, const std::vector<at::Tensor>& values) {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < values.size(); ++i) it.model->parameters()[i].copy_(values[i]);
}

std::string saved_model(const Linear& model) {
  std::ostringstream stream;
  torch::save(model, stream);
  return stream.str();
}

void load_saved_model(Linear& model, const std::string& bytes) {
  std::istringstream stream(bytes);
  torch::load(model, stream);
}

// Replicas are equal after each step, but compute with different weights in between.
TEST_P(FuseWrite, AnotherOptimizerAfterTheStepIsRefused) {
  for (const bool past_autograd : {true, false}) {
    expect_refused(GetParam(),
                   [&](WrittenModel& it) {
                     torch::optim::SGD sgd(it.model->parameters(), SGDOptions(0.1));
                     torch::optim::Adam adam(it.model->parameters(), torch::optim::AdamOptions(0.1));
                     train(it, 0);
                     if (past_autograd) {
                       sgd.step();
                     } else {
                       adam.step();
                     }
                     train(it, 1);
                   },
                   {"parameter \"weight\" was written after the last step", "rank 1 has other values there than rank 0",
                    "call step() of the optimizer that fuse was given"});
  }
}

// The whole loop uses the base class, as generic code does, and skips one step.
TEST_P(FuseWrite, ZeroGradOfTheBaseClassCounts) {
  expect_as_without_fuse(GetParam(), 2, [](WrittenModel& it) {
    torch::optim::Optimizer& base = it.optimizer;
    const auto before = it.values();
    for (int step = 0; step < 4; ++step) {
      base.zero_grad();
      it.backward(step);
      if (step == 2) {  // a loss that is not wanted
        base.zero_grad();
        it.ddp.fused_step().own_weights();
        write_values(it, before);
        continue;
      }
      base.step();
    }
  });
}

TEST_P(FuseWrite, ZeroGradOfTheModelCounts) {
  expect_as_without_fuse(GetParam(), 2, [](WrittenModel& it) {
    const std::string file = saved_model(it.model);
    it.backward(0);
    it.model->zero_grad();
    load_saved_model(it.model, file);
    for (int step = 1; step < 3; ++step) train(it, step);
  });
}

// As in the paper on WGAN (Arjovsky et al., 2017), the critic's weights are bounded at the top of the loop, when it
// still has gradients from the generator's backward.
TEST_P(FuseWrite, BoundsBeforeZeroGradAreKept) {
  for (const bool past_autograd : {true, false}) {
    expect_as_without_fuse(GetParam(), 3, [&](WrittenModel& it) {
      for (int step = 0; step < 4; ++step) {
        if (step > 0) {
          it.backward(step + 10);  // the generator's
          const torch::NoGradGuard no_grad;
          for (at::Tensor& parameter : it.model->parameters()) {
            (past_autograd ? parameter.data() : parameter).clamp_(-0.2, 0.2);
          }
        }
        train(it, step);
      }
    });
  }
}

TEST_P(FuseWrite, LoadingBeforeZeroGradIsFollowed) {
  expect_as_without_fuse(GetParam(), 2, [](WrittenModel& it) {
    const std::string file = saved_model(it.model);
    train(it, 0);
    it.backward(1);  // the loss is an outlier
    load_saved_model(it.model, file);
    for (int step = 2; step < 4; ++step) train(it, step);
  });
}

TEST_P(FuseWrite, AStepWithGradientsOfOldWeightsIsRefused) {
  expect_refused(GetParam(),
                 [](WrittenModel& it) {
                   const std::string file = saved_model(it.model);
                   train(it, 0);
                   it.optimizer.zero_grad();
                   it.backward(1);
                   load_saved_model(it.model, file);
                   it.optimizer.step();
                 },
                 {"parameter \"weight\" was moved to other memory between backward and the step",
                  "call optimizer.zero_grad() between torch::load"});
}

// An average is swapped in, written, evaluated, and swapped back: each rank's writes depend on the present values.
TEST_P(FuseWrite, OwnWeightsMayBeWrittenAsWithoutFuse) {
  for (const bool all_ranks : {true, false}) {
    expect_as_without_fuse(GetParam(), 3, [&](WrittenModel& it) {
      auto average = it.values();
      for (int step = 0; step < 4; ++step) {
        train(it, step);
        for (std::size_t i = 0; i < average.size(); ++i) average[i].lerp_(it.values()[i], 0.5);
        if (!all_ranks && it.rank != 0) continue;
        it.ddp.fused_step().own_weights();
        const auto backup = it.values();
        write_values(it, average);
        const torch::NoGradGuard no_grad;
        EXPECT_TRUE(it.model->weight.equal(average[0]));
        write_values(it, backup);
      }
      it.ddp.fused_step().own_weights();
      const torch::NoGradGuard no_grad;
      for (at::Tensor& parameter : it.model->parameters()) parameter.mul_(0.5);
      const torch::AutoGradMode with_grad(true);
      for (int step = 4; step < 6; ++step) train(it, step);
    });
  }
}

TEST_P(FuseWrite, OwnWeightsThatDifferAreRefused) {
  expect_refused(GetParam(),
                 [](WrittenModel& it) {
                   train(it, 0);
                   it.ddp.fused_step().own_weights();
                   {
                     const torch::NoGradGuard no_grad;
                     it.model->bias.add_(it.rank);
                   }
                   train(it, 1);
                 },
                 {"parameter \"bias\" was", "rank 1 has other values there than rank 0"});
}

TEST_P(FuseWrite, OwnWeightsBetweenBackwardAndStepAreRefused) {
  expect_refused(GetParam(),
                 [](WrittenModel& it) {
                   it.backward(0);
                   it.ddp.fused_step().own_weights();
                 },
                 {"own_weights was called between backward and the step", "after step(), or after zero_grad()"});
}

// LibTorch's operations write to memory of each rank; what writes by address does not.
TEST(FuseWriteOnce, WarnsWhereRanksWriteToOneMemoryByAddress) {
  for (const bool by_address : {true, false}) {
    ::testing::internal::CaptureStderr();
    fuse_ranks("thread", 3, [&](Group group) {
      WrittenModel it(group, true, Sharing::Shared);
      for (int step = 0; step < 3; ++step) {
        train(it, step);
        group->barrier();
        if (by_address) {
          if (group->rank() == 0) *it.model->weight.data_ptr<float>() += 0.25F;
        } else {
          write_values(it, {torch::full({4, 20}, 0.25)});
        }
        group->barrier();
      }
    });
    const std::string log = ::testing::internal::GetCapturedStderr();
    const std::string warning = "parameter \"weight\" was written between two steps past autograd";
    const auto found = log.find(warning);
    EXPECT_EQ(found != std::string::npos, by_address) << log;
    EXPECT_EQ(log.rfind(warning), found) << "once is enough: " << log;
  }
}

// The average of clamped gradients is not the clamped average; both ways of writing end in an error.
TEST_P(FuseWrite, ClampedGradientsAreRefused) {
  for (const bool past_autograd : {true, false}) {
    expect_refused(
        GetParam(),
        [&](WrittenModel& it) {
          train(it, 0);
          it.optimizer.zero_grad();
          it.backward(1);
          const torch::NoGradGuard no_grad;
          for (at::Tensor& parameter : it.model->parameters()) {
            const at::Tensor gradient = past_autograd ? parameter.grad().data() : parameter.mutable_grad();
            gradient.clamp_(-1e-3, 1e-3);
          }
          it.optimizer.step();
        },
        {"the gradient of parameter \"weight\" was changed after backward", "to clip by value, leave out fuse"});
  }
}

// The average of these changes equals the change of the average.
TEST_P(FuseWrite, SumsProductsAndMasksOfGradientsAreAsWithoutFuse) {
  const std::vector<std::function<void(at::Tensor&)>> changes = {
      [](at::Tensor& parameter) { parameter.mutable_grad().mul_(0.25); },
      [](at::Tensor& parameter) { parameter.mutable_grad().add_(parameter, 0.1); },
      [](at::Tensor& parameter) { parameter.mutable_grad().mul_(parameter.detach() > 0); },
      [](at::Tensor& parameter) { parameter.mutable_grad()[0].zero_(); },
      [](at::Tensor& parameter) { parameter.mutable_grad().neg_(); }};
  for (const auto& change : changes) {
    expect_as_without_fuse(GetParam(), 2, [&](WrittenModel& it) {
      for (int step = 0; step < 2; ++step) {
        it.optimizer.zero_grad();
        it.backward(step);
        const torch::NoGradGuard no_grad;
        for (at::Tensor& parameter : it.model->parameters()) change(parameter);
        const torch::AutoGradMode with_grad(true);
        it.optimizer.step();
      }
    });
  }
}

// LibTorch writes the whole storage of a tensor, and a bucket holds all layers.
TEST_P(FuseWrite, AFileOfOneLayerIsAsLargeAsWithoutFuse) {
  fuse_ranks(GetParam().engine, 2, [&](Group group) {
    const Linear layer(64, 64);
    torch::nn::Sequential model(layer, Linear(64, 64), Linear(64, 64), Linear(64, 64));
    const auto file_bytes = [&] { return saved_model(layer).size(); };
    const std::size_t want = file_bytes() + 1024;
    DistributedDataParallel ddp(model, fuse_on(group));
    SGD optimizer(model->parameters(), SGDOptions(0.05));
    FuseOptions options;
    options.share_weights = GetParam().sharing == Sharing::Shared;
    ASSERT_NE(ddp.fuse(optimizer, options).mode(), FuseMode::Off);
    EXPECT_LE(file_bytes(), want);
    ddp.fused_step().unfuse();
    EXPECT_LE(file_bytes(), want) << "after unfuse";
    flatten(*model);
    EXPECT_LE(file_bytes(), want) << "after flatten";
  });
}

}  // namespace
}  // namespace lockstep
