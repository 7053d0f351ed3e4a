// Tests what users do with an optimizer besides stepping: state, groups, saving.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <sstream>

#include "lockstep/base/error.h"
#include "lockstep/optim/adam.h"
#include "lockstep/optim/sgd.h"
#include "tests/optim/two_parameters.h"

namespace lockstep {
namespace {

using optim_tests::expect_equal;
using optim_tests::named;
using optim_tests::rounding;
using optim_tests::set_gradients;
using optim_tests::train;
using optim_tests::two_parameters;
using optim_tests::values_of;
using torch::optim::AdamOptions;
using torch::optim::SGDOptions;

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
  expect_refused(wrong, "p0 has shape [5, 7] here but [7, 5]");
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

}  // namespace
}  // namespace lockstep
