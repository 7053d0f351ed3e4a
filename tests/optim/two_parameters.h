#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "lockstep/optim/flat_optimizer.h"
#include "tests/optim/fused_arithmetic.h"

// What tests of optimizers share: two parameters, and steps with gradients that are functions of the step.
namespace lockstep::optim_tests {

inline std::vector<at::Tensor> two_parameters(unsigned seed = 7) {
  torch::manual_seed(seed);
  return {torch::randn({5, 7}).set_requires_grad(true), torch::randn({11}).set_requires_grad(true)};
}

inline std::vector<at::Tensor> values_of(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& parameter : parameters) copies.push_back(parameter.detach().clone().set_requires_grad(true));
  return copies;
}

inline NamedParameters named(const std::vector<at::Tensor>& parameters) {
  NamedParameters names;
  for (std::size_t i = 0; i < parameters.size(); ++i) names.emplace_back("p" + std::to_string(i), parameters[i]);
  return names;
}

inline void set_gradients(const std::vector<at::Tensor>& parameters, unsigned seed) {
  torch::manual_seed(seed);
  for (at::Tensor parameter : parameters) parameter.mutable_grad() = torch::randn_like(parameter.detach());
}

inline void train(torch::optim::Optimizer& optimizer, const std::vector<at::Tensor>& parameters, unsigned first,
                  unsigned last) {
  for (unsigned step = first; step < last; ++step) {
    set_gradients(parameters, step);
    optimizer.step();
  }
}

inline void expect_equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b, double tolerance = 0) {
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_LE(relative_difference(a[i], b[i]), tolerance) << i;
}

inline double rounding() { return same_rounding() ? 0 : 1e-6; }

}  // namespace lockstep::optim_tests
