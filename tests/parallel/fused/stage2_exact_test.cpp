// Tests that steps whose gradients belong to their owners (stage 2) give the weights of other steps, bit for bit.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <limits>

#include "lockstep/optim/adam.h"
#include "lockstep/optim/clip_grad_norm.h"
#include "lockstep/optim/grad_scaler.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/parallel/sync_batch_norm.h"
#include "tests/parallel/fused/stage2.h"
#include "tests/replicas/recompute.h"
#include "tests/support/pretended_hosts.h"

namespace lockstep {
namespace {

// Runs `body` over an engine; over "hosts", four ranks are on two pretended hosts, and over "unequal_hosts" three.
void on_group_ranks(const std::string& engine, const std::function<void(const Group&)>& body) {
  if (engine == "unequal_hosts") {
    return run_ranks_as_threads(3, [&](const Membership& membership) {
      body(make_communicator("", on_hosts_of(membership, {2, 1})));
    });
  }
  if (engine != "hosts") return fuse_ranks(engine, 3, body);
  run_ranks_as_threads(4, [&](const Membership& membership) { body(make_communicator("", on_two_hosts(membership))); });
}

class Stage2Exact : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Engines, Stage2Exact, ::testing::Values("thread"),
                         [](const auto& test) { return std::string(test.param); });
INSTANTIATE_TEST_SUITE_P(EnginesLong, Stage2Exact, ::testing::Values("shm", "gloo", "hosts", "unequal_hosts"),
                         [](const auto& test) { return std::string(test.param); });

// Each synchronised backward is reduced by itself, and the owner adds the averages: (a + b) / n + (c + d) / n. The
// oracle makes these averages by plain all-reduces of gradients of a model that is not wrapped, and updates it by them.
TEST_P(Stage2Exact, HasTheBitsOfTheSumOfAverages) {
  on_group_ranks(GetParam(), [](const Group& group) {
    const FuseOptions how = stage_2();
    Stage2Subject<AdamW> it(group, &how);
    const torch::nn::Linear alone = make_linear(20, 4);
    AdamW oracle(alone->parameters(), torch::optim::AdamWOptions(0.05));
    for (int step = 0; step < 3; ++step) {
      at::Tensor sum;
      for (int micro = 0; micro < 2; ++micro) {
        at::Tensor average = local_gradient(alone, group->rank(), 2 * step + micro);
        group->all_reduce(average, ReduceOp::Avg);
        sum = sum.defined() ? sum + average : average;
        it.backward(group->rank(), 2 * step + micro);
      }
      alone->weight.mutable_grad() = sum.narrow(0, 0, 80).view({4, 20}).clone();
      alone->bias.mutable_grad() = sum.narrow(0, 80, 4).clone();
      oracle.step();
      it.optimizer.step();
      it.optimizer.zero_grad();
    }
    EXPECT_TRUE(torch::equal(it.weights(), torch::cat({alone->weight.detach().flatten(), alone->bias.detach()})));
  });
}

// no_sync leaves gradients with autograd, so that the sum is rounded as without fuse.
TEST_P(Stage2Exact, HasTheBitsOfPlainStepsWithinNoSync) {
  on_group_ranks(GetParam(), [](const Group& group) {
    std::vector<at::Tensor> ends;
    for (const bool fused : {false, true}) {
      const FuseOptions how = stage_2(1);
      Stage2Subject<Adam> it(group, fused ? &how : nullptr);
      for (int step = 0; step < 3; ++step) {
        it.optimizer.zero_grad();
        it.backward_alone(group->rank(), 2 * step);
        it.backward(group->rank(), 2 * step + 1);
        it.optimizer.step();
      }
      ends.push_back(it.weights());
    }
    EXPECT_TRUE(torch::equal(ends[0], ends[1])) << (ends[0] - ends[1]).abs().max().item<double>();
  });
}

// Both buckets use one slot. Between and behind the gradients of the shorter one lie values of the longer one, of the
// step before, which belong to no gradient.
TEST_P(Stage2Exact, CountsNoValuesOfOtherBucketsInTheNorm) {
  on_group_ranks(GetParam(), [](const Group& group) {
    const FuseOptions how = stage_2(1);
    Stage2Subject<SGD> it(group, &how), plain(group, nullptr);
    for (int step = 0; step < 3; ++step) {
      std::vector<double> norms;
      for (auto* each : {&it, &plain}) {
        each->optimizer.zero_grad();
        each->backward(group->rank(), step);
        norms.push_back(clip_grad_norm_(each->optimizer, 1e-3));
        each->optimizer.step();
      }
      EXPECT_NEAR(norms[0], norms[1], 1e-5 * norms[1]) << step;
    }
  });
}

// What comes after the last synchronised backward is sent by the step.
TEST_P(Stage2Exact, SendsInTheStepWhatNoBackwardHasSent) {
  on_group_ranks(GetParam(), [](const Group& group) {
    const FuseOptions how = stage_2(1);
    for (const bool synchronised_first : {false, true}) {
      Stage2Subject<SGD> it(group, &how);
      const at::Tensor before = it.weights();
      at::Tensor first = local_gradient(it.model, group->rank(), 0),
                 second = local_gradient(it.model, group->rank(), 1);
      if (synchronised_first) {
        it.backward(group->rank(), 0);
      } else {
        it.backward_alone(group->rank(), 0);
      }
      it.backward_alone(group->rank(), 1);
      it.optimizer.step();
      at::Tensor average = first + second;
      group->all_reduce(average, ReduceOp::Avg);
      EXPECT_TRUE(torch::allclose(it.weights(), before - average * 0.05, 0, 1e-6)) << synchronised_first;
    }
  });
}

// Without zero_grad, gradients stay for the next step, as in LibTorch.
TEST_P(Stage2Exact, KeepsGradientsUntilTheyAreDropped) {
  on_group_ranks(GetParam(), [](const Group& group) {
    const FuseOptions how = stage_2();
    Stage2Subject<SGD> it(group, &how);
    it.backward(group->rank(), 0);
    const at::Tensor before = it.weights();
    it.optimizer.step();
    const at::Tensor update = before - it.weights();
    it.optimizer.step();
    EXPECT_TRUE(torch::allclose(it.weights(), before - 2 * update, 0, 1e-6));
  });
}

// Every kind of zero_grad, before forward and between forward and backward.
TEST_P(Stage2Exact, DropsGradientsByEveryKindOfZeroGrad) {
  on_group_ranks(GetParam(), [](const Group& group) {
    for (int kind = 0; kind < 5; ++kind) {
      for (const bool after_forward : {false, true}) {
        const FuseOptions how = stage_2();
        Stage2Subject<SGD> it(group, &how), fresh(group, &how);
        it.backward(group->rank(), 0);  // no step uses it
        const auto drop = [&] {
          torch::optim::Optimizer& base = it.optimizer;
          if (kind == 0) it.optimizer.zero_grad();
          if (kind == 1) base.zero_grad();
          if (kind == 2) it.model->zero_grad();
          for (at::Tensor& parameter : it.model->parameters()) {
            if (kind == 3) parameter.mutable_grad().reset();
            if (kind == 4) parameter.mutable_grad().zero_();
          }
        };
        if (!after_forward) drop();
        const at::Tensor output = it.ddp(fuse_batch(group->rank(), 1, 20));
        if (after_forward) drop();
        output.pow(2).mean().backward();
        it.optimizer.step();
        fresh.backward(group->rank(), 1);
        fresh.optimizer.step();
        EXPECT_TRUE(torch::equal(it.weights(), fresh.weights())) << kind << " " << after_forward;
      }
    }
  });
}

TEST_P(Stage2Exact, JoinsAsStage1) {
  on_group_ranks(GetParam(), [](const Group& group) {
    for (const bool divide_by_all : {true, false}) {
      std::vector<at::Tensor> ends;
      for (const int stage : {1, 2}) {
        FuseOptions how = stage_2();
        how.stage = stage;
        Stage2Subject<SGD> it(group, &how);
        const auto take_step = [&](int step) {
          it.optimizer.zero_grad();
          it.backward(group->rank(), step);
          clip_grad_norm_(it.optimizer, 0.5);
          it.optimizer.step();
        };
        take_step(0);
        JoinOptions options;
        options.divide_by_initial_world_size = divide_by_all;
        it.ddp.join(
            [&] {
              for (int step = 0; step < 2 * group->rank(); ++step) take_step(step);
            },
            options);
        for (int step = 0; step < 2; ++step) take_step(step);
        ends.push_back(it.weights());
      }
      EXPECT_TRUE(torch::allclose(ends[0], ends[1], 1e-6, 1e-7)) << (ends[0] - ends[1]).abs().max().item<double>();
    }
  });
}

// The averages that owners keep become gradients of every rank again, as a backward without fuse leaves them.
TEST_P(Stage2Exact, GivesAveragesBackWhenItIsUndone) {
  on_group_ranks(GetParam(), [](const Group& group) {
    const FuseOptions how = stage_2(1);
    Stage2Subject<Adam> it(group, &how), plain(group, nullptr);
    for (auto* each : {&it, &plain}) {
      each->backward(group->rank(), 0);
      each->optimizer.step();
      each->optimizer.zero_grad();
      each->backward(group->rank(), 1);
    }
    it.ddp.fused_step().unfuse();
    EXPECT_TRUE(torch::equal(it.model->weight.grad(), plain.model->weight.grad()));
    EXPECT_TRUE(torch::equal(it.model->bias.grad(), plain.model->bias.grad()));
    for (auto* each : {&it, &plain}) {
      each->optimizer.step();
      each->optimizer.zero_grad();
      each->backward(group->rank(), 2);
      each->optimizer.step();
    }
    EXPECT_TRUE(torch::equal(it.weights(), plain.weights()));
    EXPECT_NE(it.ddp.fuse(it.optimizer, how).mode(), FuseMode::Off);  // with gradients that wait
    for (auto* each : {&it, &plain}) {
      each->optimizer.zero_grad();
      each->backward(group->rank(), 3);
      each->optimizer.step();
    }
    EXPECT_TRUE(torch::equal(it.weights(), plain.weights()));
  });
}

TEST_P(Stage2Exact, LeavesStepsOutThatAreNotFinite) {
  on_group_ranks(GetParam(), [](const Group& group) {
    const FuseOptions how = stage_2();
    Stage2Subject<SGD> it(group, &how);
    GradScaler scaler;
    const at::Tensor before = it.weights();
    at::Tensor batch = fuse_batch(group->rank(), 0, 20);
    if (group->rank() == 1) batch[0][0] = std::numeric_limits<float>::infinity();
    scaler.scale(it.ddp(batch).sum()).backward();
    EXPECT_FALSE(scaler.step(it.optimizer));
    scaler.update();
    EXPECT_TRUE(torch::equal(it.weights(), before));
    it.optimizer.zero_grad();
    scaler.scale(it.ddp(fuse_batch(group->rank(), 0, 20)).sum()).backward();
    EXPECT_TRUE(scaler.step(it.optimizer));
    EXPECT_TRUE(it.weights().isfinite().all().item<bool>());
    EXPECT_FALSE(torch::equal(it.weights(), before));
  });
}

// In 16 bits an average is rounded once, in each of the two backwards: three digits of it are right.
TEST_P(Stage2Exact, SendsGradientsIn16Bits) {
  on_group_ranks(GetParam(), [](const Group& group) {
    FuseOptions how = stage_2();
    how.gradient_dtype = c10::ScalarType::BFloat16;
    Stage2Subject<SGD> it(group, &how), plain(group, nullptr);
    for (auto* each : {&it, &plain}) {
      each->backward(group->rank(), 0);
      each->optimizer.step();
    }
    EXPECT_TRUE(torch::allclose(it.weights(), plain.weights(), 1e-2, 1e-2));
    EXPECT_FALSE(torch::equal(it.weights(), plain.weights()));
  });
}

// Gradients of `middle` arrive twice in one backward: the second time after its bucket has left.
struct RecomputedNetImpl : torch::nn::Module {
  RecomputedNetImpl() {
    first = register_module("first", make_linear(6, 6));
    middle = register_module("middle", make_linear(6, 6));
    last = register_module("last", make_linear(6, 4));
    body = [this](torch::Tensor x) { return torch::tanh(middle->forward(x)); };
  }
  torch::Tensor forward(torch::Tensor x) {
    x = Recompute::apply(torch::tanh(first->forward(x)), &body);
    return last->forward(Recompute::apply(x, &body));
  }
  torch::nn::Linear first{nullptr}, middle{nullptr}, last{nullptr};
  std::function<torch::Tensor(torch::Tensor)> body;
};
TORCH_MODULE(RecomputedNet);

// The late part is sent by the step and added, as plain DistributedDataParallel reduces it by itself and adds it.
TEST_P(Stage2Exact, AddsGradientsThatArriveAfterTheirBucketHasLeft) {
  on_group_ranks(GetParam(), [](const Group& group) {
    std::vector<at::Tensor> ends;
    for (const bool fused : {false, true}) {
      RecomputedNet net;
      DistributedDataParallelOptions options = fuse_on(group);
      options.bucket_cap_mb = 0.00001;
      DistributedDataParallel ddp(net, options);
      Adam optimizer(net->parameters(), torch::optim::AdamOptions(0.01));
      if (fused) {
        ASSERT_NE(ddp.fuse(optimizer, stage_2(1)).mode(), FuseMode::Off);
      }
      for (int step = 0; step < 3; ++step) {
        optimizer.zero_grad();
        ddp(fuse_batch(group->rank(), step, 6)).pow(2).mean().backward();
        EXPECT_EQ(ddp.last_step().late_gradients, 2U);
        optimizer.step();
      }
      ends.push_back(torch::cat({net->middle->weight.detach().flatten(), net->first->weight.detach().flatten()}));
    }
    EXPECT_TRUE(torch::equal(ends[0], ends[1])) << (ends[0] - ends[1]).abs().max().item<double>();
  });
}

struct BranchedNetImpl : torch::nn::Module {
  explicit BranchedNetImpl(const Group& group) {
    first = register_module("first", make_linear(6, 6));
    SyncBatchNormOptions options(6);
    options.process_group = group;
    norm = register_module("norm", SyncBatchNorm(options));
    last = register_module("last", make_linear(6, 4));
    branch = register_module("branch", make_linear(4, 4));
  }
  torch::Tensor forward(const torch::Tensor& x, bool take_branch) {
    const torch::Tensor y = last(norm(first(x)));
    return take_branch ? branch(y) : y;
  }
  torch::nn::Linear first{nullptr}, last{nullptr}, branch{nullptr};
  SyncBatchNorm norm{nullptr};
};
TORCH_MODULE(BranchedNet);

// One rank holds the first bucket back for an unused branch until its backward ends, and its backward meets the others
// in SyncBatchNorm. If the others waited for that bucket's slot before, no rank would get on.
TEST(Stage2, DoesNotWaitForASlotWhileRanksMeetInBackward) {
  for (const char* engine : {"thread", "gloo"}) {
    fuse_ranks(engine, 2, [](const Group& group) {
      BranchedNet net(group);
      DistributedDataParallelOptions options = fuse_on(group);
      options.bucket_cap_mb = 0.00001;
      DistributedDataParallel ddp(net, options);
      SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1));
      ASSERT_NE(ddp.fuse(optimizer, stage_2(1)).mode(), FuseMode::Off);
      for (int step = 0; step < 3; ++step) {
        optimizer.zero_grad();
        ddp(fuse_batch(group->rank(), step, 6), group->rank() == step % 2).pow(2).mean().backward();
        optimizer.step();
      }
      EXPECT_TRUE(net->first->weight.isfinite().all().item<bool>());
    });
  }
}

}  // namespace
}  // namespace lockstep
