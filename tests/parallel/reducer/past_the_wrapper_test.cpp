// Tests forwards past the wrapper, `ddp->forward(x)`, other members and the module itself: gradients are averaged,
// buffers become rank 0's, and new memory for weights is followed. And gradients past backward, by
// torch::autograd::grad: the log says that they are not averaged.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "lockstep/optim/sgd.h"
#include "tests/parallel/fused/fuse_ranks.h"
#include "tests/parallel/reducer/normed_policy.h"

namespace lockstep {
namespace {

// At the beginning of each forward in training, buffers are rank 0's of the forward before.
TEST(PastTheWrapper, BuffersAndGradientsAreThoseOfTheWrapper) {
  for (const bool fused : {false, true}) {
    std::optional<at::Tensor> wanted_buffers, wanted_weights;
    for (const Way way : kAllWays) {
      SCOPED_TRACE(static_cast<int>(way) + (fused ? 10 : 0));
      at::Tensor buffers, weights;
      fuse_ranks("thread", 2, [&](const Group& group) {
        NormedPolicy net;
        DistributedDataParallel ddp(net, fuse_on(group));
        lockstep::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1));
        if (fused) ddp.fuse(optimizer);
        for (int step = 0; step < 4; ++step) {
          optimizer.zero_grad();
          forward_by(way, ddp, net, policy_batch(group->rank(), step), step).pow(3).sum().backward();
          optimizer.step();
        }
        ddp.fused_step().unfuse();
        ddp.eval();
        at::Tensor first = buffers_of(net), own = first.clone();
        group->broadcast(first);
        if (way != Way::Wrapper && way != Way::Mixed) {
          EXPECT_TRUE(own.equal(first)) << "on rank " << group->rank();
        }
        if (group->rank() == 0) buffers = own;
        if (group->rank() == 0) weights = weights_of(net);
        group->barrier();
      });
      if (!wanted_buffers) wanted_buffers = buffers;
      if (!wanted_weights) wanted_weights = weights;
      EXPECT_TRUE(buffers.allclose(*wanted_buffers, 1e-9, 1e-9)) << buffers << *wanted_buffers;
      EXPECT_TRUE(weights.allclose(*wanted_weights, 1e-9, 1e-9)) << weights << *wanted_weights;
    }
  }
}

// In evaluation mode a rank may compute by itself; nothing is sent then.
TEST(PastTheWrapper, BuffersStayInEvaluationMode) {
  fuse_ranks("thread", 2, [](const Group& group) {
    NormedPolicy net;
    DistributedDataParallel ddp(net, fuse_on(group));
    ddp.eval();
    ddp->forward(policy_batch(group->rank(), 0)).sum().backward();
    at::Tensor first = net->calls.clone();
    group->broadcast(first);
    EXPECT_EQ(first.equal(net->calls), group->rank() == 0);
  });
}

// A second backward of the wrapper's forward, and one that has no forward.
TEST(PastTheWrapper, MoreBackwardsThanForwardsAreNoPlainCalls) {
  fuse_ranks("thread", 2, [](const Group& group) {
    NormedPolicy net;
    DistributedDataParallel ddp(net, fuse_on(group));
    const at::Tensor output = ddp(policy_batch(group->rank(), 0));
    output.sum().backward({}, /*retain_graph=*/true);
    output.pow(2).sum().backward();
    at::Tensor first = net->calls.clone();
    group->broadcast(first);
    EXPECT_EQ(first.equal(net->calls), group->rank() == 0) << "buffers were sent once too often";
  });
}

// LibTorch's load gives parameters new memory, with accumulators that have no hooks.
TEST(PastTheWrapper, LoadedWeightsAreFollowed) {
  for (const Way way : kAllWays) {
    SCOPED_TRACE(static_cast<int>(way));
    fuse_ranks("thread", 2, [&](const Group& group) {
      NormedPolicy net;
      DistributedDataParallel ddp(net, fuse_on(group));
      std::stringstream file;
      torch::save(net, file);
      torch::load(net, file);
      forward_by(way, ddp, net, policy_batch(group->rank(), 0), 0).pow(3).sum().backward();
      for (const at::Tensor& parameter : net->parameters()) {
        at::Tensor average = parameter.grad().clone();
        group->all_reduce(average, ReduceOp::Avg);
        EXPECT_TRUE(average.allclose(parameter.grad(), 1e-12, 1e-12)) << average << parameter.grad();
      }
    });
  }
}

const std::string kOfGrad = "torch::autograd::grad";

// What the log says when two ranks run `program`.
std::string log_of(const std::function<void(const Group&, NormedPolicy&)>& program) {
  ::testing::internal::CaptureStderr();
  fuse_ranks("thread", 2, [&](const Group& group) {
    NormedPolicy net;
    program(group, net);
    group->barrier();
  });
  return ::testing::internal::GetCapturedStderr();
}

std::size_t times(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

void write_by(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& gradients) {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters.size(); ++i) at::Tensor(parameters[i]).sub_(gradients[i], 0.1);
}

// An optimizer of the program's own, as in programs of meta-learning.
TEST(AutogradGrad, UpdatesByThisRanksGradientsAreReported) {
  const std::string log = log_of([](const Group& group, NormedPolicy& net) {
    DistributedDataParallel ddp(net, fuse_on(group));
    for (int step = 0; step < 4; ++step) {
      const at::Tensor loss = ddp(policy_batch(group->rank(), step)).pow(3).sum();
      write_by(net->parameters(), torch::autograd::grad({loss}, net->parameters()));
    }
  });
  EXPECT_EQ(times(log, kOfGrad), 1U) << log;
  EXPECT_NE(log.find("\"body.weight\""), std::string::npos) << log;
  EXPECT_NE(log.find("ReduceOp::Avg"), std::string::npos) << log;
}

// It writes through `data()`, which leaves the version of the weights as it was.
TEST(AutogradGrad, UpdatesByLibTorchsSgdAreReported) {
  const std::string log = log_of([](const Group& group, NormedPolicy& net) {
    DistributedDataParallel ddp(net, fuse_on(group));
    torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.01));
    for (int step = 0; step < 4; ++step) {
      const at::Tensor loss = ddp(policy_batch(group->rank(), step)).pow(3).sum();
      const auto gradients = torch::autograd::grad({loss}, net->parameters());
      for (std::size_t i = 0; i < gradients.size(); ++i) net->parameters()[i].mutable_grad() = gradients[i];
      optimizer.step();
    }
  });
  EXPECT_EQ(times(log, kOfGrad), 1U) << log;
}

// Backwards that are averaged, before and after: what is wrong is known only from the call itself.
TEST(AutogradGrad, UpdatesBesideBackwardsAreReportedAtOnce) {
  const std::string log = log_of([](const Group& group, NormedPolicy& net) {
    DistributedDataParallel ddp(net, fuse_on(group));
    for (int step = 0; step < 4; ++step) {
      const at::Tensor loss = ddp(policy_batch(group->rank(), 0)).pow(3).sum();
      if (step == 2) {
        write_by(net->parameters(), torch::autograd::grad({loss}, net->parameters()));
        ddp(policy_batch(group->rank(), 1));
        break;
      }
      loss.backward();
    }
  });
  EXPECT_EQ(times(log, kOfGrad), 1U) << log;
  EXPECT_NE(log.find("was taken by torch::autograd::grad, and then"), std::string::npos) << log;
}

TEST(AutogradGrad, UpdatesByAveragesAreNotReported) {
  const std::string log = log_of([](const Group& group, NormedPolicy& net) {
    DistributedDataParallel ddp(net, fuse_on(group));
    for (int step = 0; step < 4; ++step) {
      const at::Tensor loss = ddp(policy_batch(group->rank(), step)).pow(3).sum();
      auto gradients = torch::autograd::grad({loss}, net->parameters());
      for (const at::Tensor& gradient : gradients) group->all_reduce(gradient, ReduceOp::Avg);
      write_by(net->parameters(), gradients);
    }
  });
  EXPECT_EQ(times(log, kOfGrad), 0U) << log;
}

// Gradients of inputs, of parameters for a penalty, and of parameters for a look at them.
TEST(AutogradGrad, OtherUsesAreNotReported) {
  const std::string log = log_of([](const Group& group, NormedPolicy& net) {
    DistributedDataParallel ddp(net, fuse_on(group));
    torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.01));
    for (int step = 0; step < 4; ++step) {
      const at::Tensor x = policy_batch(group->rank(), step).requires_grad_(true);
      const at::Tensor loss = ddp(x).pow(3).sum();
      const auto of_input = torch::autograd::grad({loss}, {x}, {}, true);
      const auto of_weights = torch::autograd::grad({loss}, net->parameters(), {}, true, true);
      at::Tensor penalty = torch::zeros({}, torch::kDouble);
      for (const at::Tensor& gradient : of_weights) penalty = penalty + gradient.pow(2).sum();
      optimizer.zero_grad();
      (loss + 0.01 * penalty).backward();
      optimizer.step();
      if (step == 2)
        torch::autograd::grad({ddp(policy_batch(group->rank(), step)).sum()}, net->parameters());  // a look
    }
  });
  EXPECT_EQ(times(log, kOfGrad), 0U) << log;
}

// The module itself shows no outputs, so that it is known only at the end.
TEST(AutogradGrad, OfTheModuleItselfIsReportedAtTheEnd) {
  for (const bool averages : {false, true}) {
    const std::string log = log_of([&](const Group& group, NormedPolicy& net) {
      DistributedDataParallel ddp(net, fuse_on(group));
      ddp.follow_backward();
      for (int step = 0; step < 3; ++step) {
        const at::Tensor loss = net->forward(policy_batch(group->rank(), step)).pow(3).sum();
        const auto gradients = torch::autograd::grad({loss}, net->parameters());
        for (const at::Tensor& gradient : gradients) {
          if (averages) group->all_reduce(gradient, ReduceOp::Avg);
        }
        write_by(net->parameters(), gradients);
      }
    });
    EXPECT_EQ(times(log, kOfGrad), averages ? 0U : 1U) << log;
  }
}

// Who wraps a model and only evaluates it may load its weights.
TEST(AutogradGrad, LoadingIsNotReported) {
  const std::string log = log_of([](const Group& group, NormedPolicy& net) {
    DistributedDataParallel ddp(net, fuse_on(group));
    const torch::NoGradGuard no_grad;
    for (at::Tensor& parameter : net->parameters()) parameter.fill_(0.5);
    ddp.eval();
    ddp(policy_batch(group->rank(), 0));
  });
  EXPECT_EQ(times(log, kOfGrad), 0U) << log;
}

}  // namespace
}  // namespace lockstep
