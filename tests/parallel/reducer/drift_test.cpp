// Tests that replicas do not drift apart in silence: a rank that alone writes, loads or updates parameters, trained or
// not, is an Error on every rank; ranks that write differently but rightly are not.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/optim/sgd.h"
#include "tests/parallel/fused/fuse_ranks.h"

namespace lockstep {
namespace {

constexpr int kDriftRanks = 2, kDriftSteps = 4, kDriftAt = 2;

struct DriftNetImpl : torch::nn::Module {
  DriftNetImpl() {
    register_module("body", body);
    register_module("head", head);
    to(torch::kDouble);
    const torch::NoGradGuard no_grad;
    int next = 1;
    for (auto& parameter : parameters()) {
      parameter.copy_(torch::linspace(-1, 1.0 / next++, parameter.numel(), torch::kDouble).view(parameter.sizes()));
    }
    body->weight.requires_grad_(false);
  }
  torch::Tensor forward(const torch::Tensor& x) { return head->forward(torch::tanh(body->forward(x))); }
  torch::nn::Linear body{4, 5}, head{5, 3};
};
TORCH_MODULE(DriftNet);

torch::Tensor drift_batch(int rank, int step) {
  return torch::linspace(-1 - rank, 1 + step, 8, torch::kDouble).view({2, 4}).sin();
}

enum class Training { Forward, PlainModel, Hook, Fused, PartlyFused };

struct DriftCase {
  const char* name;
  Training training;
};

// A way of giving a parameter other values.
struct Write {
  const char* name;
  std::function<void(torch::Tensor&, const torch::Tensor&)> make;
};

std::vector<Write> writes() {
  return {{"copy_", [](torch::Tensor& to, const torch::Tensor& values) { to.copy_(values); }},
          {"set_data", [](torch::Tensor& to, const torch::Tensor& values) { to.set_data(values.clone()); }},
          {"set_", [](torch::Tensor& to, const torch::Tensor& values) { to.set_(values.clone()); }},
          {"data().copy_", [](torch::Tensor& to, const torch::Tensor& values) { to.data().copy_(values); }}};
}

// One rank's training. `change` runs before the step kDriftAt.
void train_with(const Group& group, Training training, const std::function<void(DriftNet&)>& change,
                const std::function<void(torch::optim::Optimizer&, int)>& update = nullptr) {
  DriftNet net;
  auto options = fuse_on(group);
  options.bucket_cap_mb = 0.0001;  // a bucket for each parameter
  DistributedDataParallel ddp(net, options);
  if (training == Training::PlainModel) ddp.follow_backward();
  if (training == Training::Hook) ddp.register_comm_hook(allreduce_hook());
  const auto all = net->parameters();
  const bool is_partly = training == Training::PartlyFused;
  lockstep::SGD optimizer(is_partly ? net->head->parameters() : all, torch::optim::SGDOptions(0.1));
  const bool is_fused = training == Training::Fused || is_partly;
  if (is_fused) {
    EXPECT_NE(ddp.fuse(optimizer).mode(), FuseMode::Off);
  }
  for (int step = 0; step < kDriftSteps; ++step) {
    if (step == kDriftAt) {
      const torch::NoGradGuard no_grad;
      change(net);
    }
    ddp.zero_grad();
    const torch::Tensor input = drift_batch(group->rank(), step);
    (training == Training::PlainModel ? net->forward(input) : ddp(input)).square().sum().backward();
    if (update) {
      update(optimizer, step);
    } else {
      optimizer.step();
    }
  }
}

class Drift : public ::testing::TestWithParam<DriftCase> {};

TEST_P(Drift, WhatOneRankAloneWritesIsAnError) {
  for (const Write& write : writes()) {
    for (const bool frozen : {true, false}) {
      if (!frozen && (GetParam().training == Training::Fused || GetParam().training == Training::PartlyFused)) continue;
      for (int who = 0; who < kDriftRanks; ++who) {
        SCOPED_TRACE(std::string(write.name) + (frozen ? ", frozen" : "") + ", rank " + std::to_string(who));
        fuse_ranks("thread", kDriftRanks, [&](const Group& group) {
          const std::string text = fuse_error([&] {
            train_with(group, GetParam().training, [&](DriftNet& net) {
              torch::Tensor& parameter = frozen ? net->body->weight : net->head->weight;
              if (group->rank() == who) write.make(parameter, parameter.detach() + 0.5);
            });
          });
          const std::string name = frozen ? "body.weight" : "head.weight";
          EXPECT_NE(text.find("parameter \"" + name + "\" is not the same on rank 1 as on rank 0"), std::string::npos)
              << text;
        });
      }
    }
  }
}

TEST_P(Drift, WhatAllRanksWriteAlikeIsRight) {
  for (const Write& write : writes()) {
    SCOPED_TRACE(write.name);
    fuse_ranks("thread", kDriftRanks, [&](const Group& group) {
      train_with(group, GetParam().training,
                 [&](DriftNet& net) { write.make(net->body->weight, net->body->weight.detach() + 0.5); });
    });
  }
}

TEST_P(Drift, WhatOneRankAloneWritesAndTakesBackIsRight) {
  for (const Write& write : writes()) {
    SCOPED_TRACE(write.name);
    fuse_ranks("thread", kDriftRanks, [&](const Group& group) {
      train_with(group, GetParam().training, [&](DriftNet& net) {
        if (group->rank() == 0) return;
        const torch::Tensor before = net->body->weight.detach().clone();
        write.make(net->body->weight, before + 0.5);
        write.make(net->body->weight, before);
      });
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Trainings, Drift,
                         ::testing::Values(DriftCase{"forward", Training::Forward},
                                           DriftCase{"plain_model", Training::PlainModel},
                                           DriftCase{"hook", Training::Hook}, DriftCase{"fused", Training::Fused},
                                           DriftCase{"partly_fused", Training::PartlyFused}),
                         [](const auto& test) { return test.param.name; });

TEST(DriftOnce, AStepThatOneRankLeavesOutIsAnError) {
  fuse_ranks("thread", kDriftRanks, [](const Group& group) {
    const std::string text = fuse_error([&] {
      train_with(
          group, Training::Forward, [](DriftNet&) {},
          [&](torch::optim::Optimizer& optimizer, int step) {
            if (group->rank() == 0 || step != 1) optimizer.step();
          });
    });
    EXPECT_NE(text.find("is not the same on rank 1 as on rank 0"), std::string::npos) << text;
  });
}

// An element that alone differs, and that autograd does not see, is found after about as many steps as the parameter
// has elements.
TEST(DriftOnce, EveryElementHasItsTurn) {
  constexpr int kElements = 11;
  for (int element = 0; element < kElements; ++element) {
    SCOPED_TRACE(element);
    fuse_ranks("thread", kDriftRanks, [&](const Group& group) {
      torch::nn::Linear model = make_linear(kElements, 1);
      DistributedDataParallel ddp(model, fuse_on(group));
      if (group->rank() == 1) model->weight.data_ptr<float>()[element] += 1;
      int steps = 0;
      const std::string text = fuse_error([&] {
        for (; steps < 3 * kElements; ++steps) ddp(torch::ones({1, kElements})).sum().backward();
      });
      EXPECT_NE(text.find("parameter \"weight\" is not the same on rank 1"), std::string::npos) << text;
    });
  }
}

// Processors of different kinds round differently: the training continues, and a warning says so.
TEST(DriftOnce, RoundingIsAWarning) {
  ::testing::internal::CaptureStderr();
  fuse_ranks("thread", kDriftRanks, [](const Group& group) {
    train_with(group, Training::Forward, [&](DriftNet& net) {
      if (group->rank() == 1) net->head->weight.data().mul_(1 + 1e-9);
    });
  });
  const std::string log = ::testing::internal::GetCapturedStderr();
  const std::string warning = "parameter \"head.weight\" is not the same on rank 1 as on rank 0";
  EXPECT_NE(log.find(warning), std::string::npos) << log;
  EXPECT_EQ(log.find(warning), log.rfind(warning)) << "once is enough: " << log;
}

// SAM: each rank looks for the gradient at weights that it moves by its own gradient, and restores them before the
// update.
TEST(DriftOnce, WeightsThatEachRankMovesOnItsOwnAreAllowedIfNotWatched) {
  for (const bool watched : {true, false}) {
    SCOPED_TRACE(watched);
    fuse_ranks("thread", kDriftRanks, [&](const Group& group) {
      DriftNet net;
      auto options = fuse_on(group);
      options.watch_replicas = watched;
      DistributedDataParallel ddp(net, options);
      const std::string text = fuse_error([&] {
        for (int step = 0; step < kDriftSteps; ++step) {
          torch::Tensor& weight = net->head->weight;
          const torch::Tensor before = weight.detach().clone();
          {
            const torch::NoGradGuard no_grad;
            weight.add_(0.1 * (group->rank() + 1));
          }
          ddp(drift_batch(group->rank(), step)).square().sum().backward();
          const torch::NoGradGuard no_grad;
          weight.copy_(before);
        }
      });
      EXPECT_EQ(text.find("set watch_replicas = false") != std::string::npos, watched) << text;
    });
  }
}

// A program's own sharded optimizer: each rank updates a part of the weights, and sends it to the others.
TEST(DriftOnce, ComparisonsInEveryStepAreNotedOnce) {
  constexpr int kSteps = 20;
  for (const bool watched : {true, false}) {
    SCOPED_TRACE(watched);
    ::testing::internal::CaptureStderr();
    fuse_ranks("thread", kDriftRanks, [&](const Group& group) {
      DriftNet net;
      auto options = fuse_on(group);
      options.watch_replicas = watched;
      DistributedDataParallel ddp(net, options);
      const std::vector<torch::Tensor> parts{net->head->weight, net->head->bias};
      for (int step = 0; step < kSteps; ++step) {
        ddp.zero_grad();
        ddp(drift_batch(group->rank(), step)).square().sum().backward();
        const torch::NoGradGuard no_grad;
        torch::Tensor own = parts[static_cast<std::size_t>(group->rank())];
        own.mul_(0.999).sub_(0.01 * own.grad());
        for (int rank = 0; rank < kDriftRanks; ++rank) {
          torch::Tensor part = parts[static_cast<std::size_t>(rank)];
          torch::Tensor sent = part.detach().clone();
          group->broadcast(sent, rank);
          if (rank != group->rank()) part.copy_(sent);
        }
      }
    });
    const std::string log = ::testing::internal::GetCapturedStderr();
    const std::size_t note = log.find("set watch_replicas = false");
    EXPECT_EQ(note != std::string::npos, watched) << log;
    EXPECT_EQ(note, log.rfind("set watch_replicas = false")) << "once is enough: " << log;
  }
}

// Ranks that have run out of inputs make fewer updates, and take over the others' weights in the end.
TEST(DriftOnce, RanksThatJoinMayBeBehind) {
  fuse_ranks("thread", kDriftRanks, [](const Group& group) {
    DriftNet net;
    DistributedDataParallel ddp(net, fuse_on(group));
    torch::optim::Adam optimizer(net->parameters(), torch::optim::AdamOptions(0.1));
    JoinOptions options;
    options.optimizers = {&optimizer};
    for (int epoch = 0; epoch < 3; ++epoch) {
      const auto loop = [&] {
        for (int step = 0; step < 2 + group->rank(); ++step) {
          ddp.zero_grad();
          ddp(drift_batch(group->rank(), step)).square().sum().backward();
          optimizer.step();
        }
      };
      ddp.join(loop, options);
    }
  });
}

// A model whose only parameter is a table with sparse gradients has no other hook that could notice.
TEST(DriftOnce, PlainModelOfATableIsFollowed) {
  for (const int who : {kDriftRanks, 1}) {  // all ranks, or only the second
    SCOPED_TRACE(who);
    fuse_ranks("thread", kDriftRanks, [&](const Group& group) {
      torch::nn::Embedding table(torch::nn::EmbeddingOptions(4, 1).sparse(true));
      DistributedDataParallel ddp(table, fuse_on(group));
      ddp.follow_backward();
      const std::string text = fuse_error([&] {
        for (int step = 0; step < 3; ++step) {
          if (step == 1 && (who == kDriftRanks || group->rank() == who)) {
            const torch::NoGradGuard no_grad;
            table->weight.set_(torch::full({4, 1}, 7.0F));
          }
          table->weight.mutable_grad().reset();
          (table->forward(torch::tensor({1})) * (group->rank() == 0 ? 2 : 6)).sum().backward();
          EXPECT_FLOAT_EQ(table->weight.grad().to_dense()[1].item<float>(), 4) << "step " << step;
        }
      });
      const bool is_error = text.find("parameter \"weight\" is not the same on rank 1") != std::string::npos;
      EXPECT_EQ(is_error, who != kDriftRanks) << text;
    });
  }
}

}  // namespace
}  // namespace lockstep
