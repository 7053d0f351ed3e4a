// Tests what a program may do with weights in shards between forward, backward and step.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>
#include <vector>

#include "lockstep/optim/adam.h"
#include "tests/parallel/fused/fuse_ranks.h"
#include "tests/parallel/fused/stage3/stage3.h"

namespace lockstep {
namespace {

constexpr int kBetweenWidth = 24;

struct BetweenNetImpl : torch::nn::Module {
  BetweenNetImpl() {
    layers = register_module("layers", torch::nn::ModuleList());
    for (int i = 0; i < 4; ++i) layers->push_back(make_linear(kBetweenWidth, kBetweenWidth));
  }
  torch::Tensor forward(torch::Tensor x) {
    for (const auto& layer : *layers) x = torch::tanh(layer->as<torch::nn::Linear>()->forward(x));
    return x;
  }
  torch::nn::ModuleList layers{nullptr};
};
TORCH_MODULE(BetweenNet);

struct BetweenSubject {
  explicit BetweenSubject(const Group& with, int stage = 3) : group(with), ddp(model, buckets_of_a_parameter(with)) {
    if (stage == 0) return;
    FuseOptions how;
    how.stage = stage;
    how.share_weights = false;
    EXPECT_EQ(ddp.fuse(optimizer, how).mode(), FuseMode::ShardedState) << ddp.fused_step().reason();
  }
  torch::Tensor loss(int number) { return ddp(fuse_batch(group->rank(), number, kBetweenWidth)).pow(2).mean(); }
  void backward(int number) { loss(number).backward(); }
  void end_step() {
    optimizer.step();
    optimizer.zero_grad();
  }
  void write_parts() {
    ddp.fused_step().write_weight_parts([](const TensorParts& parts) {
      for (const TensorPart& part : parts) part.tensor.fill_(0.5);
    });
  }
  std::vector<at::Tensor> weights() { return gathered_weights(ddp); }

  Group group;
  BetweenNet model;
  DistributedDataParallel<BetweenNet> ddp;
  AdamW optimizer{model->parameters(), torch::optim::AdamWOptions(1e-2)};
};

// The steps' weights, with a call between backward and step.
std::vector<at::Tensor> trained(BetweenSubject& subject, const std::function<void(BetweenSubject&)>& call) {
  for (int number = 0; number < 3; ++number) {
    subject.backward(number);
    call(subject);
    subject.end_step();
  }
  return subject.weights();
}

TEST(Stage3Between, WritingPartsBeforeTheStepIsRefused) {
  fuse_ranks("tcp", 2, [](const Group& group) {
    BetweenSubject subject(group);
    subject.backward(0);
    subject.end_step();
    const std::vector<at::Tensor> before = subject.weights();
    subject.backward(1);
    const std::string error = fuse_error([&] { subject.write_parts(); });
    EXPECT_NE(error.find("write_weight_parts was called between backward and the step of the fused optimizer"),
              std::string::npos)
        << error;
    expect_equal_bits(subject.weights(), before);
    subject.end_step();
    subject.backward(2);
    subject.optimizer.zero_grad();
    subject.write_parts();
    for (const at::Tensor& weight : subject.weights()) EXPECT_TRUE(weight.eq(0.5).all().item<bool>());
    subject.backward(3);
    subject.end_step();
  });
}

// As after a write to a weight of a module that is not wrapped.
TEST(Stage3Between, BackwardRefusesWeightsThatWereWrittenSinceForward) {
  fuse_ranks("tcp", 2, [](const Group& group) {
    BetweenSubject subject(group);
    const torch::Tensor loss = subject.loss(0);
    subject.write_parts();
    std::string error = "no error";
    try {
      loss.backward();
    } catch (const c10::Error& thrown) {
      error = thrown.what();
    }
    EXPECT_NE(error.find("modified by an inplace operation"), std::string::npos) << error;
  });
}

// One rank alone saves its parts while layers are gathered: the others need not know.
TEST(Stage3Between, OneRankAloneReadsItsPartsAtAnyTime) {
  std::vector<at::Tensor> want;
  fuse_ranks("tcp", 2, [&](const Group& group) {
    BetweenSubject subject(group);
    const auto weights = trained(subject, [](BetweenSubject&) {});
    if (group->rank() == 0) want = weights;
  });
  fuse_ranks("tcp", 2, [&](const Group& group) {
    BetweenSubject subject(group);
    const auto look = [&] {
      if (group->rank() != 1) return;
      for (const TensorPart& part : subject.ddp.fused_step().weight_parts())
        EXPECT_TRUE(part.tensor.isfinite().all().item<bool>());
    };
    for (int number = 0; number < 3; ++number) {
      const torch::Tensor loss = subject.loss(number);
      look();
      loss.backward();
      look();
      subject.end_step();
      subject.ddp.fused_step().unshard();
      look();
      subject.ddp.fused_step().reshard();
    }
    expect_equal_bits(subject.weights(), want);
  });
}

TEST(Stage3Between, ReadingBeforeTheStepChangesNothing) {
  struct Call {
    const char* name;
    std::function<void(BetweenSubject&)> body;
  };
  const std::vector<Call> calls{
      {"weight_parts", [](BetweenSubject& subject) { subject.ddp.fused_step().weight_parts(); }},
      {"optimizer_state", [](BetweenSubject& subject) { subject.ddp.optimizer_state(subject.optimizer); }},
      {"unshard", [](BetweenSubject& subject) { subject.ddp.fused_step().unshard(); }},
      {"unshard and reshard", [](BetweenSubject& subject) { subject.weights(); }},
      {"evaluation", [](BetweenSubject& subject) {
         const torch::NoGradGuard no_grad;
         subject.loss(7);
       }}};
  std::vector<at::Tensor> want;
  fuse_ranks("tcp", 2, [&](const Group& group) {
    BetweenSubject subject(group, 0);
    const auto weights = trained(subject, [](BetweenSubject&) {});
    if (group->rank() == 0) want = weights;
  });
  for (const int stage : {1, 2, 3}) {
    for (const Call& call : calls) {
      SCOPED_TRACE(std::string(call.name) + ", stage " + std::to_string(stage));
      fuse_ranks("tcp", 2, [&](const Group& group) {
        BetweenSubject subject(group, stage);
        expect_equal_bits(trained(subject, call.body), want);
      });
    }
  }
}

// Without a reshard, the step is what finds the write if nothing else does.
TEST(Stage3Between, WhatIsWrittenToGatheredWeightsBeforeForwardIsTaken) {
  fuse_ranks("tcp", 2, [](const Group& group) {
    std::vector<std::vector<at::Tensor>> ends;
    for (const int stage : {0, 3}) {
      BetweenSubject subject(group, stage);
      for (int number = 0; number < 3; ++number) {
        subject.ddp.fused_step().unshard();
        {
          const torch::NoGradGuard no_grad;
          subject.model->layers[1]->as<torch::nn::Linear>()->weight.mul_(0.5);
          subject.model->layers[2]->as<torch::nn::Linear>()->bias.data().add_(1);
        }
        subject.backward(number);
        subject.end_step();
      }
      ends.push_back(subject.weights());
    }
    expect_equal_bits(ends[1], ends[0]);
  });
}

TEST(Stage3Between, WritingGatheredWeightsBeforeTheStepIsRefused) {
  fuse_ranks("tcp", 2, [&](const Group& group) {
    BetweenSubject subject(group);
    subject.backward(0);
    subject.ddp.fused_step().unshard();
    {
      const torch::NoGradGuard no_grad;
      subject.model->layers[1]->as<torch::nn::Linear>()->weight.fill_(7);
    }
    const std::string error = fuse_error([&] { subject.end_step(); });
    EXPECT_NE(error.find("\"layers.1.weight\""), std::string::npos) << error;
    EXPECT_NE(error.find("between backward and the step"), std::string::npos) << error;
  });
}

}  // namespace
}  // namespace lockstep
