// Tests that `join` leaves replicas that stay equal in the following steps.
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>

#include "lockstep/optim/adam.h"
#include "lockstep/optim/sgd.h"
#include "tests/parallel/fused/fuse_ranks.h"

namespace lockstep {
namespace {

using torch::nn::Linear;
using JoinedOptimizer = std::unique_ptr<torch::optim::Optimizer>;

struct JoinCase {
  const char* name;
  bool is_given;  // named to join, which finds Lockstep's own without it
  JoinedOptimizer (*make)(const std::vector<at::Tensor>& parameters);
};

template <typename Optimizer, typename Options>
JoinedOptimizer joined(const std::vector<at::Tensor>& parameters, const Options& options) {
  return std::make_unique<Optimizer>(parameters, options);
}

const JoinCase kJoinCases[] = {
    {"SGD", false, [](const auto& p) { return joined<SGD>(p, torch::optim::SGDOptions(0.01).momentum(0.9)); }},
    {"Adam", false, [](const auto& p) { return joined<Adam>(p, torch::optim::AdamOptions(0.01).amsgrad(true)); }},
    {"AdamW", false, [](const auto& p) { return joined<AdamW>(p, torch::optim::AdamWOptions(0.01)); }},
    {"TorchSgd", true,
     [](const auto& p) { return joined<torch::optim::SGD>(p, torch::optim::SGDOptions(0.01).momentum(0.9)); }},
    {"TorchAdam", true, [](const auto& p) { return joined<torch::optim::Adam>(p, torch::optim::AdamOptions(0.01)); }},
    {"TorchAdamW", true,
     [](const auto& p) { return joined<torch::optim::AdamW>(p, torch::optim::AdamWOptions(0.01)); }},
    {"TorchRmsprop", true,
     [](const auto& p) { return joined<torch::optim::RMSprop>(p, torch::optim::RMSpropOptions(0.01).momentum(0.5)); }},
    {"TorchAdagrad", true,
     [](const auto& p) { return joined<torch::optim::Adagrad>(p, torch::optim::AdagradOptions(0.01)); }},
};

bool same_on_all_ranks(Communicator& group, const Linear& model) {
  const at::Tensor mine = torch::cat({model->weight.detach().flatten(), model->bias.detach()});
  at::Tensor all = torch::empty({group.world_size() * mine.numel()});
  group.all_gather(all, mine);
  return torch::equal(all.view({group.world_size(), -1}), mine.expand({group.world_size(), -1}));
}

void joined_step(DistributedDataParallel<Linear>& ddp, torch::optim::Optimizer& optimizer, int rank, int step) {
  for (at::Tensor& parameter : ddp.module()->parameters()) parameter.mutable_grad().reset();
  ddp(fuse_batch(rank, step, 20)).pow(2).mean().backward();
  optimizer.step();
}

class JoinLeavesReplicasEqual : public ::testing::TestWithParam<JoinCase> {};

INSTANTIATE_TEST_SUITE_P(Optimizers, JoinLeavesReplicasEqual, ::testing::ValuesIn(kJoinCases),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(JoinLeavesReplicasEqual, InTheStepsThatFollow) {
  for (const char* engine : {"thread", "gloo"}) {
    fuse_ranks(engine, 3, [](Group group) {
      Linear model = make_linear(20, 4);
      DistributedDataParallel ddp(model, fuse_on(group));
      const JoinedOptimizer optimizer = GetParam().make(model->parameters());
      JoinOptions options;
      if (GetParam().is_given) options.optimizers = {optimizer.get()};
      joined_step(ddp, *optimizer, group->rank(), 0);
      const int last = ddp.join(
          [&] {
            for (int step = 0; step < 3 * (group->rank() == 1 ? 2 : group->rank() == 2 ? 1 : 0); ++step) {
              joined_step(ddp, *optimizer, group->rank(), step);
              auto& each = optimizer->param_groups()[0].options();
              each.set_lr(each.get_lr() * 0.9);
            }
          },
          options);
      EXPECT_EQ(last, 1);
      EXPECT_TRUE(same_on_all_ranks(*group, model));
      for (int step = 0; step < 5; ++step) joined_step(ddp, *optimizer, group->rank(), step);
      EXPECT_TRUE(same_on_all_ranks(*group, model));
    });
  }
}

// A rank that never stepped has no state before.
TEST(Join, GivesStateToARankWithoutAnyStep) {
  fuse_ranks("thread", 2, [](Group group) {
    Linear model = make_linear(20, 4);
    DistributedDataParallel ddp(model, fuse_on(group));
    Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.01));
    ddp.join([&] {
      for (int step = 0; step < 2 * group->rank(); ++step) joined_step(ddp, optimizer, group->rank(), step);
    });
    for (int step = 0; step < 5; ++step) joined_step(ddp, optimizer, group->rank(), step);
    EXPECT_TRUE(same_on_all_ranks(*group, model));
  });
}

// A bucket with a foreign parameter is not fused: its state is kept equal as without fuse.
TEST(Join, EqualsWhatAFusedStepDoesNotCover) {
  fuse_ranks("thread", 3, [](Group group) {
    Linear model = make_linear(20, 4);
    const torch::NoGradGuard no_grad;
    model->weight.set_data(model->weight.detach().t().contiguous().t());  // not contiguous: the step leaves it out
    const torch::AutoGradMode with_grad(true);
    DistributedDataParallelOptions small = fuse_on(group);
    small.bucket_cap_mb = 0.00001;
    DistributedDataParallel ddp(model, small);
    Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.01));
    ASSERT_NE(ddp.fuse(optimizer).mode(), FuseMode::Off);
    ddp.join([&] {
      for (int step = 0; step < 1 + 2 * group->rank(); ++step) joined_step(ddp, optimizer, group->rank(), step);
    });
    for (int step = 0; step < 5; ++step) joined_step(ddp, optimizer, group->rank(), step);
    EXPECT_TRUE(same_on_all_ranks(*group, model));
  });
}

enum class JoinedBackwards { Synchronised, InNoSync, AfterZeros };

// Rank 0 makes one step, and rank 1 two, of two backwards each. Their gradients are the inputs, which are exact:
//   step 0: (1/8 + 2/8 + 2/8 + 4/8) / 2 = 9/16
//   step 1: (2/8 + 4/8) / 2 = 3/8, or, over the ranks with inputs, 3/4; of the last backward alone, 1/4
// In PyTorch the second backward of step 1 halves the average of the first one again, so that it gets 5/16.
float weight_after_join(const Group& group, bool fused, bool by_active_ranks, JoinedBackwards kind) {
  Linear model(torch::nn::LinearOptions(1, 1).bias(false));
  {
    const torch::NoGradGuard no_grad;
    model->weight.fill_(4);
  }
  DistributedDataParallel ddp(model, fuse_on(group));
  SGD optimizer(model->parameters(), torch::optim::SGDOptions(1));
  if (fused) {
    EXPECT_NE(ddp.fuse(optimizer).mode(), FuseMode::Off);
  }
  JoinOptions how;
  how.divide_by_initial_world_size = !by_active_ranks;
  const auto backward = [&](float input) { ddp(torch::full({1, 1}, input)).sum().backward(); };
  ddp.join(
      [&] {
        for (int step = 0; step <= group->rank(); ++step) {
          const float unit = 0.125F * static_cast<float>(1 + group->rank());
          optimizer.zero_grad();
          if (kind == JoinedBackwards::InNoSync) {
            const auto no_sync = ddp.no_sync();
            backward(unit);
          } else {
            backward(unit);
          }
          if (kind == JoinedBackwards::AfterZeros && step == 1) model->weight.mutable_grad().zero_();
          backward(2 * unit);
          optimizer.step();
        }
      },
      how);
  return model->weight.item<float>();
}

TEST(Join, CountsEveryBackwardOfAStepOnce) {
  for (const char* engine : {"thread", "gloo"}) {
    for (const bool fused : {false, true}) {
      SCOPED_TRACE(std::string(engine) + (fused ? ", fused" : ""));
      fuse_ranks(engine, 2, [fused](const Group& group) {
        const float first = 4 - 9.0F / 16;
        EXPECT_EQ(weight_after_join(group, fused, false, JoinedBackwards::Synchronised), first - 3.0F / 8);
        EXPECT_EQ(weight_after_join(group, fused, false, JoinedBackwards::InNoSync), first - 3.0F / 8);
        EXPECT_EQ(weight_after_join(group, fused, true, JoinedBackwards::Synchronised), first - 3.0F / 4);
        if (!fused) {
          EXPECT_EQ(weight_after_join(group, false, false, JoinedBackwards::AfterZeros), first - 1.0F / 4);
        }
      });
    }
  }
}

TEST(Join, RefusesGradientsThatOneRankAloneHasWritten) {
  fuse_ranks("thread", 2, [](const Group& group) {
    Linear model = make_linear(20, 4);
    DistributedDataParallel ddp(model, fuse_on(group));
    const std::string text = fuse_error([&] {
      ddp.join([&] {
        for (int i = 0; i < 2; ++i) {
          ddp(fuse_batch(group->rank(), i, 20)).pow(2).mean().backward();
          if (group->rank() == 0) model->weight.mutable_grad().mul_(2);
        }
      });
    });
    EXPECT_NE(text.find("were written or dropped on some ranks, but not on all"), std::string::npos) << text;
  });
}

TEST(Join, WarnsOfAnOptimizerThatItDoesNotKnow) {
  for (const bool is_uneven : {true, false}) {
    ::testing::internal::CaptureStderr();
    fuse_ranks("thread", 2, [is_uneven](Group group) {
      Linear model = make_linear(20, 4);
      DistributedDataParallel ddp(model, fuse_on(group));
      torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.01));
      ddp.join([&] {
        for (int step = 0; step < (is_uneven ? 1 + group->rank() : 2); ++step) {
          joined_step(ddp, optimizer, group->rank(), step);
        }
      });
    });
    const std::string log = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(log.find("Name it in JoinOptions::optimizers") != std::string::npos, is_uneven) << log;
    EXPECT_EQ(log.find("parameter \"weight\"") != std::string::npos, is_uneven) << log;
  }
}

// An optimizer whose state cannot be saved.
struct UnsavableSgd : torch::optim::SGD {
  using torch::optim::SGD::SGD;
  void save(torch::serialize::OutputArchive&) const override { throw std::runtime_error("no file can hold this"); }
};

std::string error_of_join_with(const JoinedOptimizer& optimizer, const Group& group, Linear& model) {
  DistributedDataParallel ddp(model, fuse_on(group));
  JoinOptions options;
  options.optimizers = {optimizer.get()};
  return fuse_error([&] {
    ddp.join(
        [&] {
          for (int step = 0; step < 1 + group->rank(); ++step) {
            for (at::Tensor& parameter : model->parameters()) parameter.mutable_grad().reset();
            const at::Tensor loss = ddp(fuse_batch(group->rank(), step, 20)).pow(2).mean();
            loss.backward();
            optimizer->step([&] { return loss; });
          }
        },
        options);
  });
}

TEST(Join, NamesWhatCannotBeSavedOnEveryRank) {
  fuse_ranks("thread", 3, [](Group group) {
    Linear model = make_linear(20, 4);
    const JoinedOptimizer optimizer =
        joined<UnsavableSgd>(model->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
    const std::string text = error_of_join_with(optimizer, group, model);
    EXPECT_NE(text.find("cannot be saved on rank 2: no file can hold this"), std::string::npos) << text;
    EXPECT_NE(text.find("SGD, Adam, AdamW, RMSprop, Adagrad; not LBFGS"), std::string::npos) << text;
  });
}

// If this version of LibTorch can save and load its state, all ranks get it.
TEST(Join, NamesLbfgsOnEveryRankOrTakesIt) {
  fuse_ranks("thread", 2, [](Group group) {
    Linear model = make_linear(20, 4);
    const JoinedOptimizer optimizer =
        joined<torch::optim::LBFGS>(model->parameters(), torch::optim::LBFGSOptions(0.01).max_iter(1));
    const std::string text = error_of_join_with(optimizer, group, model);
    if (text == "no error") {
      EXPECT_TRUE(same_on_all_ranks(*group, model));
    } else {
      EXPECT_NE(text.find("not LBFGS"), std::string::npos) << text;
    }
  });
}

TEST(Join, RefusesRanksThatNameDifferentOptimizers) {
  fuse_ranks("thread", 2, [](Group group) {
    Linear model = make_linear(20, 4);
    DistributedDataParallel ddp(model, fuse_on(group));
    torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.01));
    JoinOptions options;
    if (group->rank() == 0) options.optimizers = {&optimizer};
    const std::string text = fuse_error([&] { ddp.join([] {}, options); });
    EXPECT_NE(text.find("rank 1 knows 0 optimizers over the module, and rank 0 knows 1"), std::string::npos) << text;
  });
}

}  // namespace
}  // namespace lockstep
