// Compares the optimizers with LibTorch's own, on the same parameters and gradients.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <functional>

#include "lockstep/optim/adam.h"
#include "lockstep/optim/flatten.h"
#include "lockstep/optim/sgd.h"
#include "tests/optim/fused_arithmetic.h"

namespace lockstep {
namespace {

using torch::optim::AdamOptions;
using torch::optim::AdamWOptions;
using torch::optim::OptimizerParamGroup;
using torch::optim::SGDOptions;
using Groups = std::vector<OptimizerParamGroup>;

struct Kind {
  const char* name;
  std::function<std::unique_ptr<torch::optim::Optimizer>(Groups)> theirs;
  std::function<std::unique_ptr<torch::optim::Optimizer>(Groups)> ours;
};

template <typename Theirs, typename Ours, typename Options>
Kind kind(const char* name, const Options& options) {
  return {name, [options](Groups groups) { return std::make_unique<Theirs>(std::move(groups), options); },
          [options](Groups groups) { return std::make_unique<Ours>(std::move(groups), options); }};
}
Kind sgd(const char* name, const SGDOptions& options) { return kind<torch::optim::SGD, SGD>(name, options); }
Kind adam(const char* name, const AdamOptions& options) { return kind<torch::optim::Adam, Adam>(name, options); }
Kind adamw(const char* name, const AdamWOptions& options) { return kind<torch::optim::AdamW, AdamW>(name, options); }

std::vector<Kind> kinds() {
  return {
      sgd("sgd", SGDOptions(0.1)),
      sgd("sgd_decay", SGDOptions(0.1).weight_decay(0.01)),
      sgd("sgd_momentum", SGDOptions(0.1).momentum(0.9)),
      sgd("sgd_momentum_decay", SGDOptions(0.1).momentum(0.9).weight_decay(0.01)),
      sgd("sgd_dampening", SGDOptions(0.1).momentum(0.9).dampening(0.3)),
      sgd("sgd_nesterov", SGDOptions(0.1).momentum(0.9).nesterov(true)),
      sgd("sgd_nesterov_decay", SGDOptions(0.1).momentum(0.9).nesterov(true).weight_decay(0.01)),
      adam("adam", AdamOptions(1e-2)),
      adam("adam_decay", AdamOptions(1e-2).weight_decay(0.01)),
      adam("adam_betas_eps", AdamOptions(1e-2).betas(std::make_tuple(0.8, 0.95)).eps(1e-4)),
      adam("adam_amsgrad", AdamOptions(1e-2).amsgrad(true)),
      adam("adam_amsgrad_decay", AdamOptions(1e-2).amsgrad(true).weight_decay(0.01)),
      adamw("adamw", AdamWOptions(1e-2)),
      adamw("adamw_no_decay", AdamWOptions(1e-2).weight_decay(0)),
      adamw("adamw_amsgrad", AdamWOptions(1e-2).amsgrad(true).weight_decay(0.1)),
  };
}

/// How parameters and gradients lie in memory.
enum class Layout { Apart, Flat, ReversedGradients, Strided, Double, Mixed };

struct OptimizerCase {
  Kind kind;
  Layout layout;
  friend std::ostream& operator<<(std::ostream& out, const OptimizerCase& c);
};

const char* name_of(Layout layout) {
  switch (layout) {
    case Layout::Apart:
      return "apart";
    case Layout::Flat:
      return "flat";
    case Layout::ReversedGradients:
      return "reversed_gradients";
    case Layout::Strided:
      return "strided";
    case Layout::Double:
      return "double";
    case Layout::Mixed:
      return "mixed";
  }
  return "";
}

std::ostream& operator<<(std::ostream& out, const OptimizerCase& c) {
  return out << c.kind.name << "_" << name_of(c.layout);
}

std::vector<OptimizerCase> optimizer_cases() {
  std::vector<OptimizerCase> all;
  for (const Kind& k : kinds()) {
    for (const Layout layout :
         {Layout::Apart, Layout::Flat, Layout::ReversedGradients, Layout::Strided, Layout::Double, Layout::Mixed}) {
      all.push_back({k, layout});
    }
  }
  return all;
}

// Parameters of odd sizes, including an empty one, a scalar, and one longer than a kernel's block.
std::vector<at::Tensor> make_parameters(Layout layout) {
  torch::manual_seed(1);
  const auto options = torch::TensorOptions(layout == Layout::Double ? torch::kDouble : torch::kFloat);
  std::vector<at::Tensor> parameters{torch::randn({3, 5}, options), torch::randn({1}, options),
                                     torch::randn({}, options),     torch::randn({0, 4}, options),
                                     torch::randn({64}, options),   torch::randn({4, 3, 3, 3}, options),
                                     torch::randn({17}, options),   torch::randn({9001}, options)};
  if (layout == Layout::Strided) {
    parameters[0] = parameters[0].t();                                         // dense, columns first
    parameters[5] = parameters[5].contiguous(at::MemoryFormat::ChannelsLast);  // dense
    parameters[4] = torch::randn({128}, options).slice(0, 0, 128, 2);          // with holes
  }
  if (layout == Layout::Mixed) parameters[4] = parameters[4].to(torch::kDouble);
  for (at::Tensor& parameter : parameters) parameter.set_requires_grad(true);
  return parameters;
}

std::vector<at::Tensor> copies_of(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& parameter : parameters) copies.push_back(parameter.detach().clone().set_requires_grad(true));
  return copies;
}

Groups two_groups(const std::vector<at::Tensor>& parameters) {
  const auto middle = parameters.begin() + 3;
  Groups groups;
  groups.emplace_back(std::vector<at::Tensor>(parameters.begin(), middle));
  groups.emplace_back(std::vector<at::Tensor>(middle, parameters.end()));
  return groups;
}

// Gives `parameters` zero gradients, laid out in memory as `layout` says.
void place_gradients(const std::vector<at::Tensor>& parameters, Layout layout) {
  if (layout == Layout::Apart || layout == Layout::Double || layout == Layout::Mixed) {
    for (at::Tensor parameter : parameters) parameter.mutable_grad() = torch::zeros_like(parameter);
  } else if (layout == Layout::Strided) {
    for (at::Tensor parameter : parameters) {
      // In row-major order for any strides of the parameter.
      parameter.mutable_grad() = torch::zeros(parameter.sizes());
    }
  } else {
    std::vector<at::Tensor> order = parameters;
    if (layout == Layout::ReversedGradients) std::reverse(order.begin(), order.end());
    std::int64_t numel = 0;
    for (const at::Tensor& parameter : order) numel += (parameter.numel() + 15) / 16 * 16;
    const at::Tensor bucket = torch::zeros({numel});
    std::int64_t offset = 0;
    for (at::Tensor& parameter : order) {
      parameter.mutable_grad() = bucket.narrow(0, offset, parameter.numel()).view(parameter.sizes());
      offset += (parameter.numel() + 15) / 16 * 16;
    }
  }
}

class AgainstLibTorch : public ::testing::TestWithParam<OptimizerCase> {};

TEST_P(AgainstLibTorch, SameWeightsAfterManySteps) {
  const auto& [kind, layout] = GetParam();
  const std::vector<at::Tensor> ours = make_parameters(layout);
  const std::vector<at::Tensor> theirs = copies_of(ours);
  if (layout == Layout::Flat || layout == Layout::ReversedGradients) flatten(ours);
  place_gradients(ours, layout);
  for (at::Tensor parameter : theirs) parameter.mutable_grad() = torch::zeros_like(parameter);
  const auto our_optimizer = kind.ours(two_groups(ours));
  const auto their_optimizer = kind.theirs(two_groups(theirs));
  for (int step = 0; step < 100; ++step) {
    for (std::size_t i = 0; i < ours.size(); ++i) {
      const at::Tensor gradient = torch::randn(ours[i].sizes(), ours[i].options().requires_grad(false));
      at::Tensor(ours[i].grad()).copy_(gradient);
      at::Tensor(theirs[i].grad()).copy_(gradient);
    }
    for (auto* optimizer : {our_optimizer.get(), their_optimizer.get()}) {
      optimizer->param_groups()[1].options().set_lr(0.02 / (1 + step));
      optimizer->step();
    }
  }
  const double tolerance = same_rounding() ? 0 : 1e-6;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_LE(relative_difference(ours[i], theirs[i]), tolerance) << "parameter " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Table, AgainstLibTorch, ::testing::ValuesIn(optimizer_cases()),
                         [](const auto& test) { return ::testing::PrintToString(test.param); });

}  // namespace
}  // namespace lockstep
