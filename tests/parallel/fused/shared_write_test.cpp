// Tests programs that write weights on every rank while ranks share one copy of them: each rank's writes must come out
// as without fuse, whatever they depend on, without a warning.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>
#include <vector>

#include "lockstep/optim/sgd.h"
#include "tests/parallel/fused/fuse_ranks.h"

namespace lockstep {
namespace {

class SharedWrite : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Engines, SharedWrite, ::testing::Values("thread", "shm"),
                         [](const auto& test) { return std::string(test.param); });

struct SharedWriteModel {
  SharedWriteModel(const Group& ranks, int stage)
      : group(ranks), ddp(model, fuse_on(ranks)), optimizer(model->parameters(), torch::optim::SGDOptions(0.05)) {
    if (stage == 0) return;
    FuseOptions how;
    how.stage = stage;
    EXPECT_EQ(ddp.fuse(optimizer, how).mode(), FuseMode::SharedWeights);
  }
  void train(int step) {
    optimizer.zero_grad();
    ddp(fuse_batch(group->rank(), step, 20)).pow(2).mean().backward();
    optimizer.step();
  }
  std::vector<at::Tensor> copies() const { return {model->weight.detach().clone(), model->bias.detach().clone()}; }
  void write(const std::vector<at::Tensor>& values) const {
    at::Tensor(model->weight).copy_(values[0]);
    at::Tensor(model->bias).copy_(values[1]);
  }

  Group group;
  torch::nn::Linear model = make_linear(20, 4);
  DistributedDataParallel<torch::nn::Linear> ddp;
  SGD optimizer;
};

using SharedWriter = std::function<void(SharedWriteModel&, std::vector<at::Tensor>& averages)>;

// Trains with `writer` after each step.
std::vector<at::Tensor> written_training(const Group& group, int stage, const SharedWriter& writer) {
  SharedWriteModel it(group, stage);
  std::vector<at::Tensor> averages = it.copies();
  for (int step = 0; step < 5; ++step) {
    it.train(step);
    const torch::NoGradGuard no_grad;
    writer(it, averages);
  }
  it.train(5);
  it.ddp.fused_step().unfuse();
  return it.copies();
}

void expect_writes_as_without_fuse(const char* engine, const SharedWriter& writer) {
  ::testing::internal::CaptureStderr();
  for (const int stage : {1, 2}) {
    fuse_ranks(engine, 3, [&](const Group& group) {
      const auto want = written_training(group, 0, writer), got = written_training(group, stage, writer);
      for (std::size_t i = 0; i < want.size(); ++i) {
        EXPECT_LE((got[i] - want[i]).abs().max().item<double>(), 1e-6) << "parameter " << i << " in stage " << stage;
      }
    });
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(log.find("was written"), std::string::npos) << log;
}

TEST_P(SharedWrite, OperationsOfEveryRankCountOnce) {
  const std::vector<SharedWriter> writers = {
      [](SharedWriteModel& it, auto&) {
        for (at::Tensor& parameter : it.model->parameters()) parameter.mul_(0.9);
      },
      [](SharedWriteModel& it, auto&) {
        for (at::Tensor& parameter : it.model->parameters()) parameter.clamp_(-0.2, 0.2);
      },
      [](SharedWriteModel& it, auto&) {
        for (at::Tensor& parameter : it.model->parameters()) parameter.data().mul_(2 / parameter.data().norm());
      },
      [](SharedWriteModel& it, auto&) {
        it.model->weight.detach().add_(0.01);
        it.model->weight[2].mul_(0.5);
        at::mul_out(it.model->bias, it.model->bias, torch::full({4}, 0.5));
      },
      [](SharedWriteModel& it, auto& averages) {  // an average that is swapped in and back
        const auto now = it.copies();
        for (std::size_t i = 0; i < averages.size(); ++i) averages[i].lerp_(now[i], 0.3);
        it.write(averages);
        EXPECT_TRUE(it.model->weight.equal(averages[0]));
        it.write(now);
      },
      [](SharedWriteModel& it, auto& averages) { it.write(averages); },  // values from elsewhere
  };
  for (const SharedWriter& writer : writers) expect_writes_as_without_fuse(GetParam(), writer);
}

// Operations that take a list of tensors, as LibTorch's newer optimizers do.
TEST_P(SharedWrite, ListsOfWeightsCountOnce) {
  expect_writes_as_without_fuse(GetParam(), [](SharedWriteModel& it, auto&) {
    at::_foreach_mul_(it.model->parameters(), 0.9);
    at::_foreach_add_(it.model->parameters(), it.copies(), 0.1);
  });
}

// The others compute meanwhile with what the step has left.
TEST_P(SharedWrite, OneRankMayWriteAndTakeItBack) {
  expect_writes_as_without_fuse(GetParam(), [](SharedWriteModel& it, auto& averages) {
    const auto now = it.copies();
    if (it.group->rank() == 1) it.write(averages);
    it.group->barrier();
    EXPECT_EQ(it.model->weight.equal(averages[0]), it.group->rank() == 1);
    it.group->barrier();
    if (it.group->rank() == 1) it.write(now);
  });
}

// A view that was taken after fuse, and is kept.
TEST_P(SharedWrite, ViewsFollowTheirParameter) {
  fuse_ranks(GetParam(), 2, [](const Group& group) {
    SharedWriteModel it(group, 1);
    const at::Tensor view = it.model->weight.data(), row = it.model->weight.detach()[1];
    it.train(0);
    const at::Tensor before = it.model->weight.detach().clone();
    {
      const torch::NoGradGuard no_grad;
      it.model->weight.mul_(0.5);
      view.add_(1);
      row.mul_(2);
    }
    at::Tensor want = before * 0.5 + 1;
    want[1].mul_(2);
    EXPECT_TRUE(it.model->weight.detach().allclose(want)) << it.model->weight << want;
    it.train(1);
  });
}

TEST_P(SharedWrite, ValuesThatDifferAreRefused) {
  for (const int who : {0, 2}) {  // only one rank, or both
    fuse_ranks(GetParam(), 2, [&](const Group& group) {
      SharedWriteModel it(group, 1);
      it.train(0);
      if (who == 2 || group->rank() == who) {
        const torch::NoGradGuard no_grad;
        it.model->bias.add_(1 + group->rank());
      }
      const std::string text = fuse_error([&] { it.train(1); });
      EXPECT_NE(text.find("parameter \"bias\" was written after the last step, and rank 1 has other values there than "
                          "rank 0"),
                std::string::npos)
          << text;
    });
  }
}

}  // namespace
}  // namespace lockstep
