// What a step that is made again begins with.
#include "lockstep/elastic/step_backup.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include <string>

namespace lockstep {
namespace {

at::Tensor a_weight(std::int64_t numel = 4) { return torch::arange(numel, torch::kFloat).requires_grad_(); }

// As kernels of batch normalisation do.
void write_past_the_version(const at::Tensor& tensor) { tensor.data_ptr<float>()[0] += 1; }

void write(const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  tensor.add_(1);
}

// A buffer and a text that a step changes, and then fails.
TEST(StepBackup, GivesBackWhatAStepHasChanged) {
  std::string text = "before";
  ElasticState state;
  state.tensors = {a_weight(), torch::zeros({3})};
  state.save = [&] { return text; };
  state.load = [&](const std::string& saved) { text = saved; };
  StepBackup backup(state);
  backup.take();
  write_past_the_version(state.tensors[1]);
  text = "after";
  EXPECT_FALSE(backup.has_updated());
  backup.restore();
  EXPECT_EQ(state.tensors[1].sum().item<float>(), 0);
  EXPECT_EQ(text, "before");
  text = "later";
  backup.restore();
  EXPECT_EQ(text, "later") << "no step was begun";
}

TEST(StepBackup, KnowsAnUpdateFromASwap) {
  ElasticState state;
  state.tensors = {a_weight(100)};
  at::Tensor& weight = state.tensors[0];
  torch::optim::SGD optimizer({weight}, torch::optim::SGDOptions(0.1));
  StepBackup backup(state);
  backup.take();
  const at::Tensor mine = weight.detach().clone();
  write(weight);
  EXPECT_TRUE(backup.has_updated());
  {
    const at::NoGradGuard no_grad;
    weight.copy_(mine);
  }
  EXPECT_FALSE(backup.has_updated()) << "an average was swapped in, and out again";
  weight.sum().backward();
  optimizer.step();
  EXPECT_TRUE(backup.has_updated());
  backup.drop();
  EXPECT_FALSE(backup.has_updated());
}

}  // namespace
}  // namespace lockstep
