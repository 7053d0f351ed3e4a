// Tests torch::load of a module whose optimizer is fused.
#include <gtest/gtest.h>

#include <sstream>

#include "lockstep/optim/adam.h"
#include "tests/parallel/fused/fuse_ranks.h"

namespace lockstep {
namespace {

using torch::nn::Linear;
using torch::optim::AdamOptions;

class FuseLoad : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Engines, FuseLoad, ::testing::Values("thread", "gloo"),
                         [](const auto& test) { return std::string(test.param); });
INSTANTIATE_TEST_SUITE_P(EnginesLong, FuseLoad, ::testing::Values("shm"),
                         [](const auto& test) { return std::string(test.param); });

std::string saved_linear(double value) {
  Linear model(20, 4);
  const torch::NoGradGuard no_grad;
  for (at::Tensor& parameter : model->parameters()) {
    parameter.copy_(torch::linspace(-value, value, parameter.numel()).view(parameter.sizes()));
  }
  std::stringstream stream;
  torch::save(model, stream);
  return stream.str();
}

void load_linear(Linear& model, const std::string& bytes) {
  std::stringstream stream(bytes);
  torch::load(model, stream);
}

void loaded_backward(DistributedDataParallel<Linear>& ddp, int rank, int step) {
  ddp(fuse_batch(rank, step, 20)).pow(2).mean().backward();
}

// Loads after the second step; without fuse it copies the values, which moves nothing.
at::Tensor train_and_load(const Group& group, bool fused) {
  Linear model = make_linear(20, 4);
  DistributedDataParallel ddp(model, fuse_on(group));
  Adam optimizer(model->parameters(), AdamOptions(0.05));
  if (fused) ddp.fuse(optimizer);
  const FuseMode mode = ddp.fused_step().mode();
  for (int step = 0; step < 6; ++step) {
    if (step == 2 && fused) load_linear(model, saved_linear(0.3));
    if (step == 2 && !fused) {
      Linear other(20, 4);
      load_linear(other, saved_linear(0.3));
      const torch::NoGradGuard no_grad;
      model->weight.copy_(other->weight);
      model->bias.copy_(other->bias);
    }
    optimizer.zero_grad();
    loaded_backward(ddp, group->rank(), step);
    optimizer.step();
  }
  EXPECT_EQ(ddp.fused_step().mode(), mode);
  return torch::cat({model->weight.detach().flatten(), model->bias.detach()}).clone();
}

TEST_P(FuseLoad, ContinuesFromTheLoadedWeights) {
  fuse_ranks(GetParam(), 3, [](Group group) {
    const at::Tensor want = train_and_load(group, false);
    const at::Tensor got = train_and_load(group, true);
    EXPECT_TRUE(torch::equal(got, want)) << (got - want).abs().max();
  });
}

TEST_P(FuseLoad, TellsEveryRankWhereOneLoadedOtherValues) {
  fuse_ranks(GetParam(), 2, [](Group group) {
    for (const bool one_loads : {true, false}) {
      Linear model = make_linear(20, 4);
      DistributedDataParallel ddp(model, fuse_on(group));
      Adam optimizer(model->parameters(), AdamOptions(0.05));
      ddp.fuse(optimizer);
      if (group->rank() == 0 || !one_loads) load_linear(model, saved_linear(0.3 + group->rank()));
      const std::string text = fuse_error([&] { optimizer.step(); });
      EXPECT_NE(text.find("parameter \"weight\" was moved"), std::string::npos) << text;
      EXPECT_NE(text.find("rank 1 has other values there than rank 0"), std::string::npos) << text;
      EXPECT_NE(text.find("load the same file on every rank"), std::string::npos) << text;
    }
  });
}

TEST_P(FuseLoad, RefusesAModuleThatWasConverted) {
  fuse_ranks(GetParam(), 2, [](Group group) {
    Linear model = make_linear(20, 4);
    DistributedDataParallel ddp(model, fuse_on(group));
    Adam optimizer(model->parameters(), AdamOptions(0.05));
    ddp.fuse(optimizer);
    model->to(torch::kDouble);
    const std::string text = fuse_error([&] { optimizer.step(); });
    EXPECT_NE(text.find("parameter \"weight\" was moved"), std::string::npos) << text;
    EXPECT_NE(text.find("dtype"), std::string::npos) << text;
  });
}

// A warm restart clears the momentum as the documentation says, after the third step.
TEST_P(FuseLoad, AClearedStateIsThatOfAnOptimizerThatIsNotFused) {
  fuse_ranks(GetParam(), 2, [](Group group) {
    std::vector<at::Tensor> weights;
    for (const bool is_fused : {true, false}) {
      Linear model = make_linear(20, 4);
      DistributedDataParallel ddp(model, fuse_on(group));
      Adam optimizer(model->parameters(), AdamOptions(0.05));
      if (is_fused) ddp.fuse(optimizer);
      for (int step = 0; step < 6; ++step) {
        optimizer.zero_grad();
        loaded_backward(ddp, group->rank(), step);
        optimizer.step();
        if (step != 2) continue;
        if (is_fused) ddp.fused_step().unfuse();
        EXPECT_EQ(optimizer.state().size(), 2U);
        optimizer.state().clear();
        if (is_fused) ddp.fuse(optimizer);
      }
      weights.push_back(model->weight.detach().clone());
    }
    EXPECT_TRUE(torch::equal(weights[0], weights[1]));
  });
}

// Saves a fused optimizer in a file as the documentation says, after the third step, and loads it in another program.
TEST_P(FuseLoad, SavesAndLoadsTheOptimizerAsThePageSays) {
  fuse_ranks(GetParam(), 2, [](Group group) {
    std::stringstream model_file, optimizer_file;
    at::Tensor want;
    {
      Linear model = make_linear(20, 4);
      DistributedDataParallel ddp(model, fuse_on(group));
      Adam optimizer(model->parameters(), AdamOptions(0.05));
      ddp.fuse(optimizer);
      for (int step = 0; step < 6; ++step) {
        optimizer.zero_grad();
        loaded_backward(ddp, group->rank(), step);
        optimizer.step();
        if (step != 2) continue;
        torch::save(model, model_file);
        ddp.fused_step().unfuse();
        torch::save(optimizer, optimizer_file);
        ddp.fuse(optimizer);
      }
      want = model->weight.detach().clone();
    }
    Linear model(20, 4);
    torch::load(model, model_file);
    DistributedDataParallel ddp(model, fuse_on(group));
    Adam optimizer(model->parameters(), AdamOptions(0.05));
    torch::load(optimizer, optimizer_file);
    ddp.fuse(optimizer);
    for (int step = 3; step < 6; ++step) {
      optimizer.zero_grad();
      loaded_backward(ddp, group->rank(), step);
      optimizer.step();
    }
    EXPECT_TRUE(torch::equal(model->weight.detach(), want));
  });
}

}  // namespace
}  // namespace lockstep
