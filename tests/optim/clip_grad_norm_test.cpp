#include "lockstep/optim/clip_grad_norm.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>

#include "lockstep/base/error.h"
#include "tests/optim/fused_arithmetic.h"

namespace lockstep {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<at::Tensor> parameters_with_gradients(at::ScalarType dtype, bool odd_layouts) {
  torch::manual_seed(2);
  std::vector<at::Tensor> parameters;
  for (const std::vector<std::int64_t>& shape :
       std::vector<std::vector<std::int64_t>>{{3, 5}, {1}, {20000}, {4, 3, 3}, {7}}) {
    at::Tensor parameter = torch::randn(shape, dtype).set_requires_grad(true);
    parameter.mutable_grad() = torch::randn(shape, dtype);
    parameters.push_back(parameter);
  }
  parameters[4].mutable_grad() = at::Tensor();
  if (odd_layouts) {
    parameters[0].mutable_grad() = torch::randn({5, 3}, dtype).t();
    parameters[3].mutable_grad() = torch::randn({4, 3, 6}, dtype).slice(2, 0, 6, 2);
  }
  return parameters;
}

std::vector<at::Tensor> copies_in(const std::vector<at::Tensor>& parameters, at::ScalarType dtype) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& parameter : parameters) {
    copies.push_back(parameter.detach().to(dtype, false, true).set_requires_grad(true));
    if (parameter.grad().defined()) copies.back().mutable_grad() = parameter.grad().to(dtype, false, true);
  }
  return copies;
}

class ClipGradNorm : public ::testing::TestWithParam<std::tuple<double, double, at::ScalarType, bool>> {};

// In fp64, because in fp32 LibTorch's own sums are off by more than 1e-6.
TEST_P(ClipGradNorm, EqualsLibTorch) {
  const auto [norm_type, max_norm, dtype, odd_layouts] = GetParam();
  const auto ours = parameters_with_gradients(dtype, odd_layouts);
  const auto theirs = copies_in(ours, torch::kDouble);
  const double norm = clip_grad_norm_(ours, max_norm, norm_type);
  const double want = torch::nn::utils::clip_grad_norm_(theirs, max_norm, norm_type);
  EXPECT_NEAR(norm, want, 1e-6 * want);
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (!theirs[i].grad().defined()) continue;
    EXPECT_LE(relative_difference(ours[i].grad(), theirs[i].grad()), 1e-6) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Norms, ClipGradNorm,
                         ::testing::Combine(::testing::Values(2.0, kInfinity, 1.0, 3.5, 0.0, -kInfinity, -2.0, -0.5),
                                            ::testing::Values(0.5, 1e9),
                                            ::testing::Values(torch::kFloat, torch::kDouble), ::testing::Bool()));

TEST(ClipGradNormCases, ByHand) {
  at::Tensor a = torch::zeros({2}).set_requires_grad(true);
  at::Tensor b = torch::zeros({1}).set_requires_grad(true);
  a.mutable_grad() = torch::tensor({3.0F, 0.0F});
  b.mutable_grad() = torch::tensor({-4.0F});
  EXPECT_EQ(clip_grad_norm_({a, b}, 10), 5);
  EXPECT_EQ(a.grad()[0].item<float>(), 3);
  EXPECT_EQ(clip_grad_norm_({a, b}, 2.5), 5);
  EXPECT_NEAR(a.grad()[0].item<float>(), 1.5, 1e-6);
  EXPECT_NEAR(b.grad()[0].item<float>(), -2, 1e-6);
}

// A tensor without elements is one gradient more, and no element.
TEST(ClipGradNormCases, NormsOfNegativeOrder) {
  at::Tensor a = torch::zeros({2}).set_requires_grad(true);
  at::Tensor empty = torch::zeros({0, 2}).set_requires_grad(true);
  a.mutable_grad() = torch::tensor({3.0F, -0.5F});
  empty.mutable_grad() = torch::zeros({0, 2});
  EXPECT_EQ(clip_grad_norm_({a, empty}, kInfinity, -kInfinity), 0.5);
  EXPECT_NEAR(clip_grad_norm_({a, empty}, kInfinity, -1), 1 / (1 / 3.0 + 2), 1e-12);
  EXPECT_EQ(clip_grad_norm_({a, empty}, kInfinity, 0), 2);
  a.mutable_grad() = torch::tensor({3.0F, 0.0F});
  EXPECT_EQ(clip_grad_norm_({a}, kInfinity, -1), 0);
  a.mutable_grad() = torch::tensor({3.0F, std::numeric_limits<float>::quiet_NaN()});
  EXPECT_TRUE(std::isnan(clip_grad_norm_({a}, kInfinity, -kInfinity)));
}

TEST(ClipGradNormCases, OneParameterTwice) {
  const auto ours = parameters_with_gradients(torch::kDouble, false);
  const auto theirs = copies_in(ours, torch::kDouble);
  const double norm = clip_grad_norm_({ours[0], ours[1], ours[0]}, 0.5);
  EXPECT_NEAR(norm, torch::nn::utils::clip_grad_norm_({theirs[0], theirs[1], theirs[0]}, 0.5), 1e-12);
  EXPECT_LE(relative_difference(ours[0].grad(), theirs[0].grad()), 1e-12);
}

TEST(ClipGradNormCases, ArgumentsThatWouldTurnGradientsAround) {
  const auto parameters = parameters_with_gradients(torch::kFloat, false);
  const at::Tensor before = parameters[0].grad().clone();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(clip_grad_norm_(parameters, nan), Error);
  EXPECT_THROW(clip_grad_norm_(parameters, -1), Error);
  EXPECT_THROW(clip_grad_norm_(parameters, 1, nan), Error);
  EXPECT_THROW(clip_grad_value_(parameters, nan), Error);
  EXPECT_THROW(clip_grad_value_(parameters, -1), Error);
  EXPECT_TRUE(torch::equal(parameters[0].grad(), before));
}

TEST(ClipGradNormCases, NoGradients) {
  EXPECT_EQ(clip_grad_norm_({}, 1), 0);
  EXPECT_EQ(clip_grad_norm_({torch::zeros({2}).set_requires_grad(true)}, 1), 0);
}

// A dense parameter and a table of four rows, whose gradient lists row 1 twice.
std::vector<at::Tensor> make_table_and_weight(bool sparse, bool coalesced) {
  at::Tensor table = torch::zeros({4, 2}, torch::kDouble).set_requires_grad(true);
  at::Tensor weight = torch::zeros({2}, torch::kDouble).set_requires_grad(true);
  const at::Tensor values = torch::tensor({1.0, -2.0, 3.0, 0.0, 0.0, 8.0}, torch::kDouble).view({3, 2});
  const at::Tensor gradient = torch::sparse_coo_tensor(torch::tensor({{1, 1, 3}}), values, {4, 2});
  table.mutable_grad() = !sparse ? gradient.to_dense() : coalesced ? gradient.coalesce() : gradient;
  weight.mutable_grad() = torch::tensor({-4.0, 0.5}, torch::kDouble);
  return {table, weight};
}

TEST(ClipGradNormCases, SparseGradientsAsDenseOnes) {
  for (const bool coalesced : {true, false}) {
    for (const double norm_type : {2.0, kInfinity, 1.0}) {
      const auto sparse = make_table_and_weight(true, coalesced), dense = make_table_and_weight(false, coalesced);
      EXPECT_DOUBLE_EQ(clip_grad_norm_(sparse, 0.5, norm_type), clip_grad_norm_(dense, 0.5, norm_type));
      EXPECT_TRUE(sparse[0].grad().is_sparse());
      EXPECT_TRUE(sparse[0].grad().to_dense().allclose(dense[0].grad())) << sparse[0].grad();
      EXPECT_TRUE(sparse[1].grad().allclose(dense[1].grad()));
    }
    const auto sparse = make_table_and_weight(true, coalesced), dense = make_table_and_weight(false, coalesced);
    clip_grad_value_(sparse, 3);
    clip_grad_value_(dense, 3);
    EXPECT_TRUE(sparse[0].grad().to_dense().equal(dense[0].grad())) << sparse[0].grad();
  }
}

TEST(ClipGradNormCases, NotFinite) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    for (const double norm_type : {2.0, kInfinity, 1.0}) {
      at::Tensor a = torch::zeros({3}).set_requires_grad(true);
      a.mutable_grad() = torch::tensor({1.0F, bad, 1.0F});
      EXPECT_THROW(clip_grad_norm_({a}, 1, norm_type, /*error_if_nonfinite=*/true), Error);
      EXPECT_EQ(a.grad()[0].item<float>(), 1);
      at::Tensor b = torch::zeros({3}).set_requires_grad(true);
      b.mutable_grad() = a.grad().clone();
      const double norm = clip_grad_norm_({a}, 1, norm_type);
      const double want = torch::nn::utils::clip_grad_norm_({b}, 1, norm_type);
      EXPECT_EQ(std::isnan(norm), std::isnan(want));
      EXPECT_EQ(std::isinf(norm), std::isinf(want));
      EXPECT_TRUE(torch::allclose(a.grad(), b.grad(), 1e-6, 0, /*equal_nan=*/true));
    }
  }
}

TEST(ClipGradNormCases, SquaresThatDoNotFitAFloat) {
  at::Tensor a = torch::zeros({4}).set_requires_grad(true);
  a.mutable_grad() = torch::full({4}, 1e30);
  EXPECT_NEAR(clip_grad_norm_({a}, 1), 2e30, 1e24);
  EXPECT_TRUE(torch::allclose(a.grad(), torch::full({4}, 0.5)));
}

TEST(ClipGradNormCases, HalfGradients) {
  at::Tensor a = torch::zeros({3}).set_requires_grad(true);
  a.mutable_grad() = torch::tensor({3.0F, 4.0F, 0.0F}).to(torch::kBFloat16);
  EXPECT_EQ(clip_grad_norm_({a}, 2.5), 5);
  EXPECT_TRUE(torch::equal(a.grad(), torch::tensor({1.5F, 2.0F, 0.0F}).to(torch::kBFloat16)));
}

}  // namespace
}  // namespace lockstep
