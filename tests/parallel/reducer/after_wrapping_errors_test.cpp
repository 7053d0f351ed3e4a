// Tests changes of a module's parameters after wrapping that cannot be followed: an Error on every rank.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/parallel/fused/fuse_ranks.h"
#include "tests/parallel/reducer/wrapped_net.h"

namespace lockstep {
namespace {

using after_wrapping::batch_of;
using after_wrapping::kReplicas;
using after_wrapping::loss_of_output;
using after_wrapping::other_weights;
using after_wrapping::WrappedNet;
using torch::nn::Linear;

struct Break {
  const char* name;
  std::function<void(WrappedNet&)> make;
  const char* says;
  bool libtorch_refuses = false;  // if its graph is run without the wrapper
};

std::vector<Break> breaks() {
  return {{"another type", [](WrappedNet& net) { net->to(torch::kFloat); },
           "parameter \"body.0.weight\" was converted from Double to Float"},
          {"another shape",
           [](WrappedNet& net) {
             net->head->weight.set_data(torch::ones({3, 4}, torch::kDouble));
           },
           "parameter \"head.weight\" got the shape [3, 4] instead of [2, 4]", true},
          {"another module",
           [](WrappedNet& net) {
             Linear other(torch::nn::LinearOptions(4, 2).bias(false));
             other->to(torch::kDouble);
             net->head = net->replace_module("head", other);
           },
           "parameter \"head.weight\" was replaced"},
          {"one more layer",
           [](WrappedNet& net) {
             net->body->push_back(Linear(4, 4));
             net->body->to(torch::kDouble);
           },
           "parameter \"body.5.weight\" was added"},
          {"one layer fewer", [](WrappedNet& net) { net->unregister_module("head"); },
           "parameter \"head.weight\" was taken out"},
          {"the result of a computation",
           [](WrappedNet& net) {
             net->body[0]->as<Linear>()->bias.requires_grad_(false);
             net->body[0]->as<Linear>()->bias.mul_(net->head->weight.sum());
           },
           "parameter \"body.0.bias\" was made the result of a computation"}};
}

std::string step_error(const Group& group, const Break& change, bool plain_model, bool changes) {
  WrappedNet net;
  DistributedDataParallel ddp(net, fuse_on(group));
  if (plain_model) ddp.follow_backward();
  const auto step = [&] {
    const torch::Tensor input = batch_of(group->rank(), 0, 0).to(net->body[0]->as<Linear>()->weight.dtype());
    loss_of_output(plain_model ? net->forward(input) : ddp(input)).backward();
  };
  step();
  if (changes) change.make(net);
  return fuse_error(step);
}

TEST(AfterWrappingOnce, WhatCannotBeFollowedIsAnErrorThatNamesTheParameter) {
  for (const Break& change : breaks()) {
    for (const bool plain_model : {false, true}) {
      if (plain_model && change.libtorch_refuses) continue;
      for (const int who : {kReplicas, 1}) {  // all ranks, or only the second
        SCOPED_TRACE(std::string(change.name) + (plain_model ? ", plain model" : "") + ", " + std::to_string(who));
        fuse_ranks("thread", kReplicas, [&](const Group& group) {
          const std::string text = step_error(group, change, plain_model, who == kReplicas || group->rank() == who);
          EXPECT_NE(text.find(change.says), std::string::npos) << text;
          const bool found_here = who == kReplicas || group->rank() == who;
          EXPECT_EQ(text.find("wrap it again") != std::string::npos, found_here) << text;
        });
      }
    }
  }
}

// The error occurs in the following step, before any weight is updated.
TEST(AfterWrappingOnce, WeightsThatOneRankAloneLoadsAreAnError) {
  for (const int who : {0, 1}) {
    for (const bool plain_model : {false, true}) {
      fuse_ranks("thread", kReplicas, [&](const Group& group) {
        WrappedNet net;
        DistributedDataParallel ddp(net, fuse_on(group));
        if (plain_model) ddp.follow_backward();
        const auto step = [&] {
          const torch::Tensor input = batch_of(group->rank(), 0, 0);
          loss_of_output(plain_model ? net->forward(input) : ddp(input)).backward();
        };
        step();
        if (group->rank() == who) {
          const torch::NoGradGuard no_grad;
          net->head->weight.set_(other_weights(net->head->weight));
        }
        const std::string text = fuse_error(step);
        EXPECT_NE(text.find("\"head.weight\" is not the same on rank 1 as on rank 0"), std::string::npos) << text;
      });
    }
  }
}

}  // namespace
}  // namespace lockstep
