// What a loop's state lacks.
#include "lockstep/parallel/agreement/state_watch.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include "lockstep/parallel/deferred.h"

namespace lockstep {
namespace {

at::Tensor a_weight(std::int64_t numel = 4) { return torch::arange(numel, torch::kFloat).requires_grad_(); }

// As kernels of batch normalisation do.
void write_past_the_version(const at::Tensor& tensor) { tensor.data_ptr<float>()[0] += 1; }

void write(const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  tensor.add_(1);
}

TEST(StateWatch, NamesWhatAStepChangesAndTheStateHasNot) {
  const at::Tensor weight = a_weight(), other = a_weight(), average = torch::zeros({3});
  StateWatch watch({weight});
  EXPECT_EQ(StateWatch::current(), &watch);
  watch.add({{"weight", weight}, {"other", other}}, {{"average", average}});
  watch.take();
  write(weight);
  EXPECT_EQ(watch.changed(), "");
  watch.take();
  write_past_the_version(average);
  EXPECT_EQ(watch.changed(), "average");
  watch.take();
  write(other);
  EXPECT_EQ(watch.changed(), "other");
  watch.start_over();
  watch.take();
  write(other);
  EXPECT_EQ(watch.changed(), "") << "no module is wrapped for this group";
}

TEST(StateWatch, KnowsOtherTensorsOfTheSameMemory) {
  const at::Tensor flat = torch::zeros({8}), weight = flat.narrow(0, 2, 4).detach().requires_grad_();
  const at::Tensor alone = a_weight();
  StateWatch watch({flat, alone.detach()});
  watch.add({{"weight", weight}, {"alone", alone}}, {});
  watch.take();
  write(weight);
  write(alone);
  EXPECT_EQ(watch.changed(), "");
}

// An update that is fused after the module is wrapped gives weights other memory, which this state does not have.
TEST(StateWatch, NoticesAWeightThatHasLeftTheMemoryOfTheState) {
  const at::Tensor weight = a_weight();
  StateWatch watch({weight.detach()});
  watch.add({{"weight", weight}}, {});
  weight.set_data(weight.detach().clone());
  watch.take();
  write(weight);
  EXPECT_EQ(watch.changed(), "weight");
}

TEST(StateWatch, LeavesWeightsAloneThatAreMadeLater) {
  const torch::nn::Sequential net =
      deferred([] { return torch::nn::Sequential(torch::nn::Linear(200, 200), torch::nn::Linear(200, 200)); });
  StateWatch watch(net->parameters());
  for (const auto& each : net->named_parameters()) watch.add({{each.key(), each.value()}}, {});
  watch.take();
  EXPECT_EQ(watch.changed(), "");
}

TEST(StateWatch, IsThatOfTheFirstLoop) {
  StateWatch first({});
  { const StateWatch second({}); }
  EXPECT_EQ(StateWatch::current(), &first);
}

}  // namespace
}  // namespace lockstep
