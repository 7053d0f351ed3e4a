// Tests what docs/reference/needs-more-than-the-wrap.md says: each program there, on two ranks, makes the steps of one
// process over all samples.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "lockstep/optim/lr_scheduler.h"
#include "lockstep/optim/sgd.h"
#include "tests/parallel/fused/fuse_ranks.h"

namespace lockstep {
namespace {

constexpr int kPageRanks = 2;
constexpr std::int64_t kPageRows = 8;

torch::nn::Sequential page_net(int outputs = 1) {
  torch::nn::Sequential net(make_linear(4, 8), torch::nn::Tanh(), make_linear(8, outputs));
  net->to(torch::kDouble);
  return net;
}

at::Tensor page_inputs(int step) {
  return torch::linspace(-2, 1 + 0.3 * step, kPageRows * 4, torch::kDouble).cos().view({kPageRows, 4});
}

at::Tensor page_targets(int step) {
  return torch::linspace(-1, 2 + step, kPageRows, torch::kDouble).sin().view({kPageRows, 1});
}

at::Tensor flat_weights(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& parameter : parameters) all.push_back(parameter.detach().flatten());
  return torch::cat(all).clone();
}

// What a program of the page has: a model, its forward (through the wrapper, if there is one), and its place among the
// ranks. Alone: one process, without a group.
struct PageProgram {
  torch::nn::Sequential& net;
  std::function<at::Tensor(const at::Tensor&)> forward;
  Communicator* group = nullptr;

  std::int64_t ranks() const { return group == nullptr ? 1 : group->world_size(); }
  at::Tensor part(const at::Tensor& whole) const {
    return group == nullptr ? whole : whole.chunk(kPageRanks)[static_cast<std::size_t>(group->rank())];
  }
  void average(const at::Tensor& tensor, ReduceOp op = ReduceOp::Avg) const {
    if (group != nullptr) group->all_reduce(tensor, op);
  }
  at::Tensor mean_loss(int step) const {
    return (forward(part(page_inputs(step))) - part(page_targets(step))).pow(2).mean();
  }
};

// Runs the program in one process and on two ranks, and expects equal weights.
void expect_steps_of_one_process(const std::function<void(const PageProgram&)>& program, int outputs = 1) {
  torch::nn::Sequential alone = page_net(outputs);
  program({alone, [&](const at::Tensor& x) { return alone->forward(x); }});
  const at::Tensor want = flat_weights(alone->parameters());
  fuse_ranks("thread", kPageRanks, [&](const Group& group) {
    torch::nn::Sequential net = page_net(outputs);
    DistributedDataParallel ddp(net, fuse_on(group));
    program({net, [&](const at::Tensor& x) { return ddp(x); }, group.get()});
    const at::Tensor got = flat_weights(net->parameters());
    EXPECT_TRUE(got.allclose(want, 1e-9, 1e-10)) << (got - want).abs().max();
  });
}

TEST(NeedsMore, LbfgsWithTheMeanLoss) {
  for (const bool searches : {false, true}) {
    expect_steps_of_one_process([&](const PageProgram& it) {
      auto how = torch::optim::LBFGSOptions(0.5).max_iter(8);
      if (searches) how.line_search_fn("strong_wolfe");
      torch::optim::LBFGS lbfgs(it.net->parameters(), how);
      for (int step = 0; step < 3; ++step) {
        lbfgs.step([&] {
          lbfgs.zero_grad();
          const at::Tensor loss = it.mean_loss(0);
          loss.backward();
          at::Tensor mean = loss.detach().clone();
          it.average(mean);
          return mean;
        });
      }
    });
  }
}

// Each rank searches by its own loss: what says so names closures.
TEST(NeedsMore, LbfgsWithALocalLossIsAnErrorThatSaysWhy) {
  fuse_ranks("thread", kPageRanks, [](const Group& group) {
    torch::nn::Sequential net = page_net();
    DistributedDataParallel ddp(net, fuse_on(group));
    const PageProgram it{net, [&](const at::Tensor& x) { return ddp(x); }, group.get()};
    torch::optim::LBFGS lbfgs(net->parameters(), torch::optim::LBFGSOptions(1).line_search_fn("strong_wolfe"));
    const std::string text = fuse_error([&] {
      for (int step = 0; step < 20; ++step) {
        lbfgs.step([&] {
          lbfgs.zero_grad();
          const at::Tensor loss = it.mean_loss(0);
          loss.backward();
          return loss;
        });
      }
    });
    EXPECT_NE(text.find("closure"), std::string::npos) << text;
    EXPECT_NE(text.find("needs-more-than-the-wrap.md"), std::string::npos) << text;
  });
}

TEST(NeedsMore, SchedulerThatLooksAtTheMeanLoss) {
  expect_steps_of_one_process([](const PageProgram& it) {
    torch::optim::SGD optimizer(it.net->parameters(), torch::optim::SGDOptions(0.9).momentum(0.9));
    ReduceLROnPlateau::Options how;
    how.patience = 0;
    how.factor = 0.5;
    ReduceLROnPlateau plateau(optimizer, how);
    for (int step = 0; step < 12; ++step) {
      optimizer.zero_grad();
      const at::Tensor loss = it.mean_loss(step % 3);
      loss.backward();
      optimizer.step();
      at::Tensor seen = loss.detach().clone();
      it.average(seen);
      plateau.step(seen.item<double>());
    }
  });
}

TEST(NeedsMore, SumsTimesTheNumberOfRanks) {
  expect_steps_of_one_process([](const PageProgram& it) {
    torch::optim::SGD optimizer(it.net->parameters(), torch::optim::SGDOptions(0.01));
    for (int step = 0; step < 4; ++step) {
      optimizer.zero_grad();
      (it.mean_loss(step) * it.part(page_inputs(step)).size(0) * it.ranks()).backward();
      optimizer.step();
    }
  });
}

// The first rank has other numbers of labels that count than the second.
TEST(NeedsMore, LossesOverTheLabelsThatCount) {
  namespace nn = torch::nn::functional;
  expect_steps_of_one_process(
      [](const PageProgram& it) {
        torch::optim::SGD optimizer(it.net->parameters(), torch::optim::SGDOptions(0.1));
        for (int step = 0; step < 4; ++step) {
          optimizer.zero_grad();
          const at::Tensor labels = it.part(torch::tensor({0, 1, -100, -100, -100, 2, 1, 0}, torch::kLong));
          at::Tensor count = labels.ne(-100).sum().to(torch::kFloat);
          it.average(count, ReduceOp::Sum);
          const auto how = nn::CrossEntropyFuncOptions().ignore_index(-100).reduction(torch::kSum);
          const at::Tensor sum = nn::cross_entropy(it.forward(it.part(page_inputs(step))), labels, how);
          (sum * (it.ranks() / count)).backward();
          optimizer.step();
        }
      },
      3);
}

TEST(NeedsMore, AveragedGradientsOfAutogradGrad) {
  expect_steps_of_one_process([](const PageProgram& it) {
    for (int step = 0; step < 4; ++step) {
      auto gradients = torch::autograd::grad({it.mean_loss(step)}, it.net->parameters());
      for (const at::Tensor& gradient : gradients) it.average(gradient);
      const torch::NoGradGuard no_grad;
      for (std::size_t i = 0; i < gradients.size(); ++i) it.net->parameters()[i].sub_(gradients[i], 0.1);
    }
  });
}

// Every rank leaves out the same steps.
TEST(NeedsMore, StepsThatAllRanksLeaveOut) {
  expect_steps_of_one_process([](const PageProgram& it) {
    torch::optim::SGD optimizer(it.net->parameters(), torch::optim::SGDOptions(0.1));
    for (int step = 0; step < 6; ++step) {
      optimizer.zero_grad();
      const at::Tensor loss = it.mean_loss(step);
      at::Tensor seen = loss.detach().clone(), bad = loss.detach().isfinite().logical_not().to(torch::kFloat);
      if (step == 2 && (it.group == nullptr || it.group->rank() == 1)) bad.fill_(1);  // as if it were NaN
      it.average(bad, ReduceOp::Max);
      it.average(seen);
      if (bad.item<float>() > 0) continue;
      if (step > 3 && seen.item<double>() > 0) return;
      loss.backward();
      optimizer.step();
    }
  });
}

struct PagePolicyImpl : torch::nn::Module {
  PagePolicyImpl() {
    register_module("body", body);
    to(torch::kDouble);
  }
  std::tuple<at::Tensor, at::Tensor> evaluate_actions(const at::Tensor& x) {
    const at::Tensor out = body(x);
    return {out.select(1, 0), out.select(1, 1)};
  }
  torch::nn::Linear body = make_linear(4, 2);
};
TORCH_MODULE(PagePolicy);

TEST(NeedsMore, ModelsWithoutForward) {
  const auto train = [](PagePolicy& policy, const PageProgram& it, const std::function<void()>& step_of) {
    for (int step = 0; step < 3; ++step) {
      policy->zero_grad();
      const auto [values, scores] = policy->evaluate_actions(it.part(page_inputs(step)));
      (values.pow(2).mean() - scores.sin().mean()).backward();
      step_of();
    }
  };
  torch::nn::Sequential unused = page_net();
  PagePolicy alone;
  torch::optim::SGD of_alone(alone->parameters(), torch::optim::SGDOptions(0.1));
  train(alone, {unused, {}}, [&] { of_alone.step(); });
  for (const bool fused : {false, true}) {
    fuse_ranks("thread", kPageRanks, [&](const Group& group) {
      PagePolicy policy;
      DistributedDataParallel wrapper(policy, fuse_on(group));
      wrapper.follow_backward();
      SGD optimizer(policy->parameters(), torch::optim::SGDOptions(0.1));
      if (fused) wrapper.fuse(optimizer);
      torch::nn::Sequential own_unused = page_net();
      train(policy, {own_unused, {}, group.get()}, [&] { optimizer.step(); });
      EXPECT_TRUE(flat_weights(policy->parameters()).allclose(flat_weights(alone->parameters()), 1e-9, 1e-10));
    });
  }
}

}  // namespace
}  // namespace lockstep
