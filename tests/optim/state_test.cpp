// Tests what users do with an optimizer besides stepping: groups, state, saving, closures, fused extras.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <sstream>

#include "lockstep/base/error.h"
#include "lockstep/optim/adam.h"
#include "lockstep/optim/clip_grad_norm.h"
#include "lockstep/optim/sgd.h"
#include "tests/optim/fused_arithmetic.h"

namespace lockstep {
namespace {

using torch::optim::AdamOptions;
using torch::optim::SGDOptions;

std::vector<at::Tensor> two_parameters(unsigned seed = 7) {
  torch::manual_seed(seed);
  return {torch::randn({5, 7}).set_requires_grad(true), torch::randn({11}).set_requires_grad(true)};
}

std::vector<at::Tensor> values_of(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& parameter : parameters) copies.push_back(parameter.detach().clone().set_requires_grad(true));
  return copies;
}

NamedParameters named(const std::vector<at::Tensor>& parameters) {
  NamedParameters names;
  for (std::size_t i = 0; i < parameters.size(); ++i) names.emplace_back("p" + std::to_string(i), parameters[i]);
  return names;
}

void set_gradients(const std::vector<at::Tensor>& parameters, unsigned seed) {
  torch::manual_seed(seed);
  for (at::Tensor parameter : parameters) parameter.mutable_grad() = torch::randn_like(parameter.detach());
}

void train(torch::optim::Optimizer& optimizer, const std::vector<at::Tensor>& parameters, unsigned first,
           unsigned last) {
  for (unsigned step = first; step < last; ++step) {
    set_gradients(parameters, step);
    optimizer.step();
  }
}

void expect_equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b, double tolerance = 0) {
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_LE(relative_difference(a[i], b[i]), tolerance) << i;
}

double rounding() { return same_rounding() ? 0 : 1e-6; }

TEST(NamedState, ContinuesToTheBit) {
  const auto whole = two_parameters();
  Adam one(whole, AdamOptions(0.1).amsgrad(true));
  train(one, whole, 0, 10);

  const auto first = two_parameters();
  Adam before(first, AdamOptions(0.1).amsgrad(true));
  train(before, first, 0, 4);
  const auto second = values_of(first);
  Adam after(second, AdamOptions(0.1).amsgrad(true));
  after.load_named_state(named(second), before.named_state(named(first)));
  train(after, second, 4, 10);
  expect_equal(second, whole);
}

TEST(NamedState, GoesByNameAndNotByOrder) {
  const auto parameters = two_parameters();
  Adam optimizer(parameters, AdamOptions(0.1));
  train(optimizer, parameters, 0, 3);
  const auto others = values_of({parameters[1], parameters[0]});
  Adam other(others, AdamOptions(0.1));
  other.load_named_state({{"p1", others[0]}, {"p0", others[1]}}, optimizer.named_state(named(parameters)));
  train(optimizer, parameters, 3, 4);
  set_gradients(parameters, 5);
  others[0].mutable_grad() = parameters[1].grad().clone();
  others[1].mutable_grad() = parameters[0].grad().clone();
  optimizer.step();
  const auto state = optimizer.named_state(named(parameters));
  EXPECT_EQ(state.at("p0").step, 5);
  EXPECT_EQ(state.at("p0").tensors.at("exp_avg").sizes(), parameters[0].sizes());
  EXPECT_TRUE(state.at("p0").is_whole());
}

TEST(NamedState, WhatTheStateDoesNotNameStartsAnew) {
  const auto parameters = two_parameters();
  Adam optimizer(parameters, AdamOptions(0.1));
  train(optimizer, parameters, 0, 3);
  NamedState state = optimizer.named_state(named(parameters));
  state.erase("p1");
  optimizer.load_named_state(named(parameters), state);
  const NamedState now = optimizer.named_state(named(parameters));
  EXPECT_EQ(now.size(), 1U);
  EXPECT_EQ(now.at("p0").step, 3);
}

TEST(NamedStateErrors, NameTheParameter) {
  const auto parameters = two_parameters();
  Adam optimizer(parameters, AdamOptions(0.1));
  train(optimizer, parameters, 0, 1);
  const NamedState state = optimizer.named_state(named(parameters));
  EXPECT_THROW(optimizer.named_state({{"p0", parameters[0]}}), Error);

  const auto expect_refused = [&](const NamedState& wrong, const std::string& text) {
    Adam other(parameters, AdamOptions(0.1));
    try {
      other.load_named_state(named(parameters), wrong);
      FAIL() << "took " << text;
    } catch (const Error& error) {
      EXPECT_NE(error.happened().find(text), std::string::npos) << error.what();
    }
  };
  NamedState wrong = state;
  wrong.at("p0").sizes = {7, 5};
  expect_refused(wrong, "p0 has shape [5, 7] here and [7, 5]");
  wrong = state;
  wrong.at("p0").begin = 1;
  expect_refused(wrong, "[1, 35)");
  wrong = state;
  wrong.at("p1").tensors["momentum_buffer"] = torch::zeros({11});
  expect_refused(wrong, "does not keep");
  wrong = state;
  wrong.at("p1").tensors.erase("exp_avg");
  expect_refused(wrong, "p1 has no exp_avg");
  wrong = state;
  wrong.at("p1").tensors["exp_avg"] = torch::zeros({10});
  expect_refused(wrong, "10 values");
}

TEST(GroupOptions, AreSavedAndLoaded) {
  const auto parameters = two_parameters();
  Adam optimizer(parameters,
                 AdamOptions(0.1).betas(std::make_tuple(0.8, 0.9)).eps(1e-5).weight_decay(0.2).amsgrad(true));
  const auto saved = optimizer.group_options();
  Adam other(parameters, AdamOptions(0.5));
  other.load_group_options(saved);
  EXPECT_EQ(other.group_options(), saved);
  EXPECT_EQ(other.param_groups()[0].options().get_lr(), 0.1);
  SGD sgd(parameters, SGDOptions(0.1).momentum(0.5).nesterov(true));
  SGD same(parameters, SGDOptions(0.2));
  same.load_group_options(sgd.group_options());
  EXPECT_EQ(same.group_options(), sgd.group_options());
  EXPECT_THROW(sgd.load_group_options(saved), Error);
  EXPECT_THROW(sgd.load_group_options({}), Error);
}

template <typename From, typename To, typename Options>
void check_archive(const Options& options) {
  const auto parameters = two_parameters();
  From from(parameters, options);
  train(from, parameters, 0, 5);
  std::stringstream file;
  torch::save(from, file);
  // Two parameters of 46 floats: an archive that wrote shared memory several times over would be much larger.
  EXPECT_LT(file.str().size(), 20000U);
  const auto others = values_of(parameters);
  To to(others, options);
  torch::load(to, file);
  train(from, parameters, 5, 9);
  train(to, others, 5, 9);
  expect_equal(others, parameters, rounding());
}

TEST(Archives, AreThoseOfLibTorch) {
  const auto adam = AdamOptions(0.1).amsgrad(true);
  check_archive<Adam, Adam>(adam);
  check_archive<Adam, torch::optim::Adam>(adam);
  check_archive<torch::optim::Adam, Adam>(adam);
  const auto adamw = torch::optim::AdamWOptions(0.1);
  check_archive<AdamW, torch::optim::AdamW>(adamw);
  check_archive<torch::optim::AdamW, AdamW>(adamw);
  const auto sgd = SGDOptions(0.1).momentum(0.9).dampening(0.1);
  check_archive<SGD, torch::optim::SGD>(sgd);
  check_archive<torch::optim::SGD, SGD>(sgd);
}

TEST(State, IsShownAsLibTorchsAndMayBeReplaced) {
  const auto parameters = two_parameters();
  Adam optimizer(parameters, AdamOptions(0.1));
  train(optimizer, parameters, 0, 2);
  ASSERT_EQ(optimizer.state().size(), 2U);
  for (auto& entry : optimizer.state()) {
    EXPECT_EQ(static_cast<torch::optim::AdamParamState&>(*entry.second).step(), 2);
  }
  optimizer.state().clear();  // starts over, as users of LibTorch do
  const auto others = values_of(parameters);
  Adam fresh(others, AdamOptions(0.1));
  train(optimizer, parameters, 2, 5);
  train(fresh, others, 2, 5);
  expect_equal(parameters, others);
}

TEST(State, MomentumSwitchedOnLaterStartsWithTheGradient) {
  const auto ours = two_parameters();
  const auto theirs = values_of(ours);
  SGD a(ours, SGDOptions(0.1));
  torch::optim::SGD b(theirs, SGDOptions(0.1));
  for (auto* optimizer : std::initializer_list<torch::optim::Optimizer*>{&a, &b}) {
    const auto& parameters = optimizer == &a ? ours : theirs;
    train(*optimizer, parameters, 0, 2);
    static_cast<SGDOptions&>(optimizer->param_groups()[0].options()).momentum(0.9).dampening(0.5);
    train(*optimizer, parameters, 2, 5);
  }
  expect_equal(ours, theirs, rounding());
}

// The options of a group in a file that an optimizer saved; LibTorch does not take them over when it loads.
SGDOptions saved_options(torch::serialize::InputArchive& file, const std::string& group) {
  torch::serialize::InputArchive groups;
  torch::serialize::InputArchive of_group;
  torch::serialize::InputArchive options;
  file.read("param_groups", groups);
  groups.read("param_groups/" + group, of_group);
  of_group.read("options", options);
  SGDOptions result(0);
  result.serialize(options);
  return result;
}

// A value that new options have too: LibTorch 2.9 and later take it for "not set" when they build an optimizer.
TEST(Groups, OptionsOfAGroupAreSavedThoughNewOptionsHaveThemToo) {
  const auto parameters = two_parameters();
  std::vector<torch::optim::OptimizerParamGroup> groups;
  for (const at::Tensor& parameter : parameters) groups.emplace_back(std::vector<at::Tensor>{parameter});
  SGD optimizer(groups, SGDOptions(0.1).momentum(0.9).weight_decay(0.3));
  static_cast<SGDOptions&>(optimizer.param_groups()[1].options()).momentum(0).weight_decay(0);
  std::stringstream text;
  torch::serialize::OutputArchive out;
  optimizer.save(out);
  out.save_to(text);
  torch::serialize::InputArchive file;
  file.load_from(text);
  EXPECT_EQ(saved_options(file, "0").weight_decay(), 0.3);
  EXPECT_EQ(saved_options(file, "0").momentum(), 0.9);
  EXPECT_EQ(saved_options(file, "1").weight_decay(), 0);
  EXPECT_EQ(saved_options(file, "1").momentum(), 0);
}

TEST(Groups, AddedLaterAndParametersWithoutGradient) {
  const auto ours = two_parameters();
  const auto theirs = values_of(ours);
  Adam a(std::vector<at::Tensor>{ours[0]}, AdamOptions(0.1));
  torch::optim::Adam b(std::vector<at::Tensor>{theirs[0]}, AdamOptions(0.1));
  const auto run = [](torch::optim::Optimizer& optimizer, const std::vector<at::Tensor>& parameters) {
    train(optimizer, {parameters[0]}, 0, 3);
    auto options = std::make_unique<AdamOptions>(0.7);
    optimizer.add_param_group({{parameters[1]}, std::move(options)});
    train(optimizer, parameters, 3, 5);
    at::Tensor(parameters[0]).mutable_grad() = at::Tensor();  // its step count stands still
    optimizer.step();
    train(optimizer, parameters, 6, 8);
  };
  run(a, ours);
  run(b, theirs);
  expect_equal(ours, theirs, rounding());
}

TEST(Step, RunsAClosureWithGradientsOn) {
  at::Tensor weight = torch::full({4}, 2.0).set_requires_grad(true);
  SGD optimizer(std::vector<at::Tensor>{weight}, SGDOptions(0.25));
  const torch::NoGradGuard no_grad;
  const at::Tensor loss = optimizer.step([&] {
    optimizer.zero_grad();
    at::Tensor value = weight.mul(weight).sum();
    value.backward();
    return value;
  });
  EXPECT_EQ(loss.item<float>(), 16);
  EXPECT_TRUE(torch::equal(weight, torch::full({4}, 1.0)));  // 2 - 0.25 * 4
}

TEST(StepWith, ClipsAndZeroesInTheSamePass) {
  const auto ours = two_parameters();
  const auto theirs = values_of(ours);
  Adam a(ours, AdamOptions(0.1));
  torch::optim::Adam b(theirs, AdamOptions(0.1));
  for (unsigned step = 0; step < 20; ++step) {
    set_gradients(ours, step);
    set_gradients(theirs, step);
    StepOptions options;
    options.max_norm = step % 2 == 0 ? 1 : 1000;
    options.zero_grad = true;
    const StepResult result = a.step_with(options);
    const double norm = torch::nn::utils::clip_grad_norm_(theirs, options.max_norm);
    b.step();
    EXPECT_NEAR(result.norm, norm, 1e-6 * norm);
    for (const auto& parameter : ours) EXPECT_EQ(parameter.grad().count_nonzero().item<std::int64_t>(), 0);
  }
  expect_equal(ours, theirs, 2e-6);  // LibTorch's norm is an fp32 number
}

TEST(StepWith, LeavesOutTheUpdateIfAGradientIsNotFinite) {
  const auto parameters = two_parameters();
  const auto before = values_of(parameters);
  Adam optimizer(parameters, AdamOptions(0.1));
  for (const double max_norm : {0.0, 1.0}) {
    set_gradients(parameters, 1);
    at::Tensor(parameters[1].grad())[10] = NAN;
    StepOptions options;
    options.check_finite = true;
    options.max_norm = max_norm;
    options.zero_grad = true;
    EXPECT_TRUE(optimizer.step_with(options).skipped);
    expect_equal(parameters, before);
    for (const auto& parameter : parameters) EXPECT_EQ(parameter.grad().count_nonzero().item<std::int64_t>(), 0);
  }
  set_gradients(parameters, 1);
  StepOptions options;
  options.check_finite = true;
  EXPECT_FALSE(optimizer.step_with(options).skipped);
}

TEST(StepWith, TakesHalfGradientsForFloatWeights) {
  for (const at::ScalarType dtype : {torch::kBFloat16, torch::kHalf}) {
    const auto ours = two_parameters();
    const auto theirs = values_of(ours);
    AdamW a(ours, torch::optim::AdamWOptions(0.1));
    torch::optim::AdamW b(theirs, torch::optim::AdamWOptions(0.1));
    for (unsigned step = 0; step < 10; ++step) {
      set_gradients(ours, step);
      for (std::size_t i = 0; i < ours.size(); ++i) {
        const at::Tensor half = ours[i].grad().to(dtype);
        at::Tensor(ours[i]).mutable_grad() = half;
        at::Tensor(theirs[i]).mutable_grad() = half.to(torch::kFloat);
      }
      a.step();
      b.step();
    }
    expect_equal(ours, theirs, rounding());
  }
}

// Weights that no kernel supports are updated by tensor operations.
TEST(Step, UpdatesHalfWeightsAsLibTorchDoes) {
  std::vector<at::Tensor> ours{torch::randn({33}).to(torch::kBFloat16).set_requires_grad(true)};
  const auto theirs = values_of(ours);
  SGD a(ours, SGDOptions(0.1).momentum(0.9));
  torch::optim::SGD b(theirs, SGDOptions(0.1).momentum(0.9));
  train(a, ours, 0, 5);
  train(b, theirs, 0, 5);
  expect_equal(ours, theirs);
}

TEST(Step, DoesNotDependOnThreads) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "libgomp is not built for the thread sanitizer, which then reports its barriers";
#endif
  const int threads = at::get_num_threads();
  std::vector<std::vector<at::Tensor>> results;
  for (const int count : {1, 2, 5}) {
    at::set_num_threads(count);
    torch::manual_seed(1);
    std::vector<at::Tensor> parameters;
    for (const std::int64_t n : {70001, 3, 50000, 33}) parameters.push_back(torch::randn({n}).set_requires_grad(true));
    AdamW optimizer(parameters, torch::optim::AdamWOptions(0.1));
    for (unsigned step = 0; step < 3; ++step) {
      set_gradients(parameters, step);
      StepOptions options;
      options.max_norm = 1;
      optimizer.step_with(options);
    }
    results.push_back(parameters);
  }
  at::set_num_threads(threads);
  expect_equal(results[1], results[0]);
  expect_equal(results[2], results[0]);
}

TEST(ZeroGrad, WorksOnViewsAndGraphs) {
  const at::Tensor bucket = torch::ones({20});
  at::Tensor a = torch::ones({8}).set_requires_grad(true);
  at::Tensor b = torch::ones({3}).set_requires_grad(true);
  at::Tensor c = torch::ones({3}).set_requires_grad(true);  // without a gradient
  a.mutable_grad() = bucket.narrow(0, 0, 8);
  b.mutable_grad() = torch::ones({3}).set_requires_grad(true).mul(2);
  SGD optimizer(std::vector<at::Tensor>{a, b, c}, SGDOptions(0.1));
  optimizer.zero_grad();
  EXPECT_EQ(bucket.sum().item<float>(), 12);
  EXPECT_EQ(b.grad().count_nonzero().item<std::int64_t>(), 0);
  EXPECT_FALSE(b.grad().requires_grad());
  EXPECT_FALSE(c.grad().defined());
}

class CountingDelegate : public StepDelegate {
 public:
  StepResult step(const StepOptions& options) override {
    ++steps;
    return {options.max_norm, true};
  }
  bool gradients_are_zero() const override { return zero; }
  void gradients_dropped() override { ++drops; }
  bool covers(const at::Tensor&) const override { return true; }
  double gradient_norm(const std::vector<at::Tensor>& parameters, double norm_type) override {
    return norm_type * static_cast<double>(parameters.size());
  }
  void scale_gradients(const std::vector<at::Tensor>& parameters, double factor) override {
    scaled = parameters.size();
    scale = factor;
  }
  void optimizer_destroyed() noexcept override { gone = true; }
  bool gone = false;
  int steps = 0;
  int drops = 0;
  bool zero = true;
  std::size_t scaled = 0;
  double scale = 0;
};

TEST(Delegate, TakesOverSteps) {
  const auto parameters = two_parameters();
  const auto before = values_of(parameters);
  Adam optimizer(parameters, AdamOptions(0.1));
  CountingDelegate delegate;
  optimizer.set_step_delegate(&delegate);
  set_gradients(parameters, 1);
  static_cast<torch::optim::Optimizer&>(optimizer).step();
  StepOptions options;
  options.max_norm = 7;
  EXPECT_EQ(optimizer.step_with(options).norm, 7);
  EXPECT_EQ(delegate.steps, 2);
  expect_equal(parameters, before);
  optimizer.zero_grad();
  EXPECT_NE(parameters[0].grad().count_nonzero().item<std::int64_t>(), 0);
  EXPECT_EQ(delegate.drops, 0);
  delegate.zero = false;
  optimizer.zero_grad();
  EXPECT_EQ(delegate.drops, 1);
  EXPECT_EQ(parameters[0].grad().count_nonzero().item<std::int64_t>(), 0);
  optimizer.set_step_delegate(nullptr);
  optimizer.step();
  EXPECT_EQ(delegate.steps, 2);
}

TEST(Delegate, ClipsAndLearnsThatTheOptimizerIsGone) {
  CountingDelegate delegate;
  {
    Adam optimizer(two_parameters(), AdamOptions(0.1));
    optimizer.set_step_delegate(&delegate);
    EXPECT_EQ(clip_grad_norm_(optimizer, 3, 2), 4);
    EXPECT_EQ(delegate.scaled, 2U);
    EXPECT_NEAR(delegate.scale, 0.75, 1e-6);
    EXPECT_FALSE(delegate.gone);
  }
  EXPECT_TRUE(delegate.gone);
}

TEST(OptimizerErrors, SayWhatIsWrong) {
  const auto parameters = two_parameters();
  EXPECT_THROW(SGD(parameters, SGDOptions(-1)), Error);
  EXPECT_THROW(SGD(parameters, SGDOptions(NAN)), Error);
  EXPECT_THROW(SGD(parameters, SGDOptions(1).momentum(-0.1)), Error);
  EXPECT_THROW(SGD(parameters, SGDOptions(1).weight_decay(-0.1)), Error);
  EXPECT_THROW(SGD(parameters, SGDOptions(1).nesterov(true)), Error);
  EXPECT_THROW(SGD(parameters, SGDOptions(1).nesterov(true).momentum(0.9).dampening(0.1)), Error);
  EXPECT_THROW(Adam(parameters, AdamOptions(-1)), Error);
  EXPECT_THROW(Adam(parameters, AdamOptions(1).eps(-1)), Error);
  EXPECT_THROW(Adam(parameters, AdamOptions(1).betas(std::make_tuple(1.0, 0.9))), Error);
  EXPECT_THROW(Adam(parameters, AdamOptions(1).betas(std::make_tuple(0.9, -0.1))), Error);
  EXPECT_THROW(AdamW(parameters, torch::optim::AdamWOptions(1).weight_decay(-1)), Error);

  Adam optimizer(parameters, AdamOptions(0.1));
  at::Tensor weight = parameters[0];
  weight.mutable_grad() = torch::zeros({5, 7}).to_sparse();
  EXPECT_THROW(optimizer.step(), Error);
}

}  // namespace
}  // namespace lockstep
