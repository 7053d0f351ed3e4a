// Tests that a wrapper all of whose backwards were in no_sync says at its end that nothing was averaged: each rank has
// trained a model of its own.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>

#include "lockstep/optim/sgd.h"
#include "tests/parallel/fused/fuse_ranks.h"

namespace lockstep {
namespace {

const std::string kOnlyNoSync = "every backward was in no_sync";

// What the log says when two ranks run `program`.
std::string log_of_ranks(const std::function<void(const Group&)>& program) {
  ::testing::internal::CaptureStderr();
  fuse_ranks("thread", 2, [&](const Group& group) {
    program(group);
    group->barrier();
  });
  return ::testing::internal::GetCapturedStderr();
}

struct OnlyNoSyncCase {
  const char* name;
  bool is_warning;
  // Between the backward in no_sync and the step.
  std::function<void(DistributedDataParallel<torch::nn::Linear>&, const Group&, int step)> before_step;
  bool is_fused = false;
  friend std::ostream& operator<<(std::ostream& out, const OnlyNoSyncCase& each) { return out << each.name; }
};

class OnlyNoSync : public ::testing::TestWithParam<OnlyNoSyncCase> {};

TEST_P(OnlyNoSync, IsReportedAtTheEnd) {
  const std::string log = log_of_ranks([](const Group& group) {
    const torch::nn::Linear model = make_linear(4, 2);
    DistributedDataParallel ddp(model, fuse_on(group));
    SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1));
    if (GetParam().is_fused) ddp.fuse(optimizer);
    for (int step = 0; step < 4; ++step) {
      optimizer.zero_grad();
      {
        const auto quiet = ddp.no_sync();
        ddp(fuse_batch(group->rank(), step, 4)).pow(2).mean().backward();
      }
      GetParam().before_step(ddp, group, step);
      optimizer.step();
    }
  });
  EXPECT_EQ(log.find(kOnlyNoSync) != std::string::npos, GetParam().is_warning) << log;
  EXPECT_EQ(log.find(kOnlyNoSync), log.rfind(kOnlyNoSync)) << "once is enough: " << log;
  EXPECT_EQ(log.find("\"weight\"") != std::string::npos, GetParam().is_warning) << log;
}

void average_by_hand(DistributedDataParallel<torch::nn::Linear>& ddp, const Group& group) {
  for (const at::Tensor& parameter : ddp.parameters()) group->all_reduce(parameter.mutable_grad(), ReduceOp::Avg);
}

INSTANTIATE_TEST_SUITE_P(Cases, OnlyNoSync,
                         ::testing::Values(OnlyNoSyncCase{"nothing_more", true, [](auto&, auto&, int) {}},
                                           OnlyNoSyncCase{"the_loss_is_averaged", true,
                                                          [](auto&, auto& group, int) {
                                                            at::Tensor loss = torch::ones({1});
                                                            group->all_reduce(loss);
                                                          }},
                                           OnlyNoSyncCase{
                                               "averaged_by_the_program", false,
                                               [](auto& ddp, auto& group, int) { average_by_hand(ddp, group); }},
                                           OnlyNoSyncCase{"accumulated", false,
                                                          [](auto& ddp, auto& group, int step) {
                                                            ddp(fuse_batch(group->rank(), step, 4)).sum().backward();
                                                          }},
                                           OnlyNoSyncCase{"fused", false, [](auto&, auto&, int) {}, true}),
                         [](const auto& test) { return std::string(test.param.name); });

// It writes through `data()`, which leaves the version of the weights as it was.
TEST(OnlyNoSyncOf, LibTorchsSgd) {
  for (const int steps : {1, 4}) {
    const std::string log = log_of_ranks([&](const Group& group) {
      const torch::nn::Linear model = make_linear(4, 2);
      DistributedDataParallel ddp(model, fuse_on(group));
      torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1));
      const auto quiet = ddp.no_sync();
      for (int step = 0; step < steps; ++step) {
        optimizer.zero_grad();
        ddp(fuse_batch(group->rank(), step, 4)).pow(2).mean().backward();
        optimizer.step();
      }
    });
    EXPECT_EQ(log.find(kOnlyNoSync) != std::string::npos, steps > 1) << log;
  }
}

// An encoder under two heads: the second wrapper averages it, and nobody the first one's head.
TEST(OnlyNoSyncOf, AHeadOfItsOwn) {
  for (const bool has_head : {true, false}) {
    const std::string log = log_of_ranks([&](const Group& group) {
      const torch::nn::Linear encoder = make_linear(4, 3);
      torch::nn::Sequential one(encoder), other(encoder, make_linear(3, 2));
      if (has_head) one->push_back(make_linear(3, 2));
      DistributedDataParallel first(one, fuse_on(group)), second(other, fuse_on(group));
      std::vector<at::Tensor> parameters = other->parameters();
      if (has_head) {
        for (const at::Tensor& parameter : one[1]->parameters()) parameters.push_back(parameter);
      }
      SGD optimizer(parameters, torch::optim::SGDOptions(0.1));
      for (int step = 0; step < 4; ++step) {
        optimizer.zero_grad();
        {
          const auto quiet = first.no_sync();
          first(fuse_batch(group->rank(), step, 4)).pow(2).mean().backward();
        }
        second(fuse_batch(group->rank(), step, 4)).mean().backward();
        optimizer.step();
      }
    });
    EXPECT_EQ(log.find(kOnlyNoSync) != std::string::npos, has_head) << log;
    EXPECT_EQ(log.find("\"1.weight\"") != std::string::npos, has_head) << log;
  }
}

TEST(OnlyNoSyncOf, ALookIsNotReported) {
  const std::string log = log_of_ranks([](const Group& group) {
    const torch::nn::Linear model = make_linear(4, 2);
    DistributedDataParallel ddp(model, fuse_on(group));
    const auto quiet = ddp.no_sync();
    for (int step = 0; step < 4; ++step) ddp(fuse_batch(group->rank(), step, 4)).sum().backward();  // a look
  });
  EXPECT_EQ(log.find(kOnlyNoSync), std::string::npos) << log;
}

}  // namespace
}  // namespace lockstep
