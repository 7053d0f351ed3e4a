// Compares gradients of gradients through DataParallel with those of the module itself.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>

#include "lockstep/replicas/data_parallel.h"
#include "tests/replicas/replica_fixtures.h"

namespace lockstep {
namespace {

using replica_tests::contains;
using replica_tests::cpu_devices;
using replica_tests::forget_gradients;
using replica_tests::gradients_of;
using replica_tests::largest_difference;
using replica_tests::text_of_error;
using replica_tests::TwoLayers;

using Call = std::function<at::Tensor(const at::Tensor&)>;

at::Tensor gradient_at(const at::Tensor& y, const at::Tensor& x) {
  return torch::autograd::grad({y}, {x}, {}, c10::nullopt, /*create_graph=*/true)[0];
}

// Each penalty leaves gradients in the model and in `x`.
struct Penalty {
  const char* name;
  std::function<void(const Call&, TwoLayers&, const at::Tensor& x)> run;
  friend std::ostream& operator<<(std::ostream& out, const Penalty& penalty) { return out << penalty.name; }
};
class DoubleBackward : public ::testing::TestWithParam<std::tuple<Penalty, int, int>> {};

TEST_P(DoubleBackward, EqualsTheModuleItself) {
  const auto& [penalty, replicas, samples] = GetParam();
  torch::manual_seed(1);
  TwoLayers model;
  at::Tensor x = torch::randn({samples, 5}, torch::kDouble).requires_grad_();
  const auto gradients_by = [&](const Call& call) {
    forget_gradients(*model);
    x.mutable_grad() = at::Tensor();
    penalty.run(call, model, x);
    auto gradients = gradients_of(*model);
    gradients.push_back(x.grad().defined() ? x.grad().clone() : at::Tensor());
    return gradients;
  };
  const auto want = gradients_by([&](const at::Tensor& input) { return model->forward(input); });
  DataParallel dp(model, cpu_devices(replicas));
  for (int round = 0; round < 2; ++round) {
    const auto got = gradients_by([&](const at::Tensor& input) { return dp(input); });
    EXPECT_LT(largest_difference(got, want), 1e-12);
  }
}

const auto kPenalties = ::testing::Values(
    // Gulrajani et al., 2017, arXiv:1704.00028: the gradient at the input should have norm 1.
    Penalty{"wgan_gp",
            [](const Call& call, TwoLayers&, const at::Tensor& x) {
              (gradient_at(call(x).sum(), x).norm(2, 1) - 1).pow(2).mean().backward();
            }},
    // Mescheder et al., 2018, arXiv:1801.04406: one forward gives the loss and the penalty.
    Penalty{"r1",
            [](const Call& call, TwoLayers&, const at::Tensor& x) {
              const at::Tensor y = call(x);
              (torch::softplus(y).mean() + gradient_at(y.sum(), x).pow(2).sum()).backward();
            }},
    Penalty{"of_the_weights",
            [](const Call& call, TwoLayers& model, const at::Tensor& x) {
              at::Tensor sum = torch::zeros({}, torch::kDouble);
              const at::Tensor loss = call(x).pow(3).sum();
              for (const auto& g : torch::autograd::grad({loss}, model->parameters(), {}, c10::nullopt, true)) {
                sum = sum + g.pow(2).sum();
              }
              sum.backward();
            }},
    Penalty{"added_to_grad",
            [](const Call& call, TwoLayers& model, const at::Tensor& x) {
              call(x).pow(3).sum().backward({}, c10::nullopt, /*create_graph=*/true);
              const at::Tensor first = model->first->weight.grad();
              model->first->weight.mutable_grad() = at::Tensor();
              first.pow(2).sum().backward();
            }},
    Penalty{"third_order",
            [](const Call& call, TwoLayers&, const at::Tensor& x) {
              const at::Tensor first = gradient_at(call(x).pow(2).sum(), x);
              gradient_at(first.pow(2).sum(), x).pow(2).sum().backward();
            }},
    Penalty{"with_a_hook", [](const Call& call, TwoLayers& model, const at::Tensor& x) {
              const unsigned hook =
                  model->first->weight.register_hook([](const at::Tensor& gradient) { return gradient * 3; });
              gradient_at(call(x).pow(2).sum(), x).pow(2).sum().backward();
              model->first->weight.remove_hook(hook);
            }});
INSTANTIATE_TEST_SUITE_P(Table, DoubleBackward,
                         ::testing::Combine(kPenalties, ::testing::Values(2, 3), ::testing::Values(1, 5)));

TEST(DoubleBackwardGraph, GoesBackwardOnceUnlessItIsKept) {
  TwoLayers model;
  DataParallel dp(model, cpu_devices(2));
  const at::Tensor x = torch::randn({4, 5}, torch::kDouble).requires_grad_();
  const at::Tensor penalty = gradient_at(dp(x).pow(2).sum(), x).pow(2).sum();
  penalty.backward();
  EXPECT_TRUE(contains(text_of_error([&] { penalty.backward(); }), "backward through the graph a second time"));
}

}  // namespace
}  // namespace lockstep
