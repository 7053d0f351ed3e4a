// Tests what a program sees in `grad` when gradients belong to their owners (stage 2), and that nothing which it does
// with that goes wrong in silence.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <stdexcept>

#include "lockstep/optim/clip_grad_norm.h"
#include "lockstep/optim/sgd.h"
#include "tests/parallel/fused/stage2.h"

namespace lockstep {
namespace {

class Stage2Grad : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Engines, Stage2Grad, ::testing::Values("thread"),
                         [](const auto& test) { return std::string(test.param); });
INSTANTIATE_TEST_SUITE_P(EnginesLong, Stage2Grad, ::testing::Values("gloo"),
                         [](const auto& test) { return std::string(test.param); });

struct WithScalarImpl : torch::nn::Module {
  WithScalarImpl() {
    linear = register_module("linear", make_linear(20, 4));
    scale = register_parameter("scale", torch::full({1}, 0.5));
  }
  torch::Tensor forward(const torch::Tensor& x) { return linear(x) * scale; }
  torch::nn::Linear linear{nullptr};
  at::Tensor scale;
};
TORCH_MODULE(WithScalar);

// A network with a weight of one element, after a backward.
struct Stage2Net {
  explicit Stage2Net(const Group& group) : ddp(net, Stage2Subject<SGD>::small_buckets(group)) {
    EXPECT_NE(ddp.fuse(optimizer, stage_2()).mode(), FuseMode::Off);
    backward(group->rank());
  }
  void backward(int rank) { ddp(fuse_batch(rank, 0, 20)).pow(2).mean().backward(); }

  WithScalar net;
  DistributedDataParallel<WithScalar> ddp;
  SGD optimizer{net->parameters(), torch::optim::SGDOptions(0.05)};
};

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST_P(Stage2Grad, ReadsAsNanAndRefusesWrites) {
  fuse_ranks(GetParam(), 2, [](Group group) {
    Stage2Net it(group);
    const at::Tensor& grad = it.net->linear->weight.grad();
    EXPECT_EQ(grad.sizes(), it.net->linear->weight.sizes());
    EXPECT_TRUE(grad.isnan().all().item<bool>());
    EXPECT_EQ(grad.storage().nbytes(), sizeof(float));
    EXPECT_ANY_THROW(grad.mul_(0.5));
    EXPECT_ANY_THROW(grad.clamp_(-1, 1));
    EXPECT_ANY_THROW(grad.copy_(torch::ones({4, 20})));
    EXPECT_ANY_THROW(grad.data().mul_(0.5));
    EXPECT_ANY_THROW(torch::nn::utils::clip_grad_norm_(it.net->parameters(), 1.0));
    EXPECT_ANY_THROW(torch::nn::utils::clip_grad_value_(it.net->parameters(), 1.0));
  });
}

// After what LibTorch throws, and after what it lets through, the step refuses.
TEST_P(Stage2Grad, RefusesTheStepAfterLibTorchsClipping) {
  fuse_ranks(GetParam(), 2, [](Group group) {
    for (const double bound : {0.0, 1e-3}) {
      for (const bool by_value : {false, true}) {
        Stage2Net it(Group(group->split(0)));
        const std::vector<at::Tensor> scale = {it.net->scale};
        if (by_value) {
          torch::nn::utils::clip_grad_value_(scale, bound);
        } else {
          torch::nn::utils::clip_grad_norm_(scale, bound);
        }
        expect_part(fuse_error([&] { it.optimizer.step(); }),
                    "the gradient of parameter \"scale\" was written after backward had sent it");
      }
    }
  });
}

TEST_P(Stage2Grad, RefusesGradientsOfTheProgramsOwn) {
  fuse_ranks(GetParam(), 2, [](Group group) {
    for (int kind = 0; kind < 3; ++kind) {
      Stage2Net it(group);
      at::Tensor& grad = it.net->linear->weight.mutable_grad();
      if (kind == 0) grad = torch::ones({4, 20});
      if (kind == 1) grad.fill_(0.25);
      if (kind == 2) grad = grad.clone();
      expect_part(fuse_error([&] { it.optimizer.step(); }),
                  "the gradient of parameter \"linear.weight\" was written after backward had sent it");
      it.optimizer.zero_grad();  // the group lives on
      it.backward(group->rank());
      it.optimizer.step();
    }
  });
}

TEST_P(Stage2Grad, RefusesToDropSomeGradients) {
  fuse_ranks(GetParam(), 2, [](Group group) {
    for (const bool again : {false, true}) {
      Stage2Net it(Group(group->split(0)));
      it.net->linear->bias.mutable_grad().zero_();
      const std::string text = fuse_error([&] {
        if (again) it.backward(group->rank());
        it.optimizer.step();
      });
      expect_part(text, "the gradient of parameter \"linear.bias\" was dropped after backward had sent it");
    }
  });
}

TEST_P(Stage2Grad, RefusesGradientsThatOneRankDrops) {
  fuse_ranks(GetParam(), 2, [](Group group) {
    for (const bool own_type : {false, true}) {
      for (const bool again : {false, true}) {
        Stage2Net it(group);
        if (group->rank() == 1) {
          if (own_type) {
            it.optimizer.zero_grad();
          } else {
            it.net->zero_grad();
          }
        }
        if (again) it.backward(group->rank());
        expect_part(fuse_error([&] { it.optimizer.step(); }), "were dropped on some ranks, but not on all");
        it.optimizer.zero_grad();
        it.backward(group->rank());
        it.optimizer.step();
      }
    }
  });
}

TEST_P(Stage2Grad, NoticesThatAnotherOptimizerSteps) {
  fuse_ranks(GetParam(), 2, [](Group group) {
    Stage2Net it(group);
    it.optimizer.step();
    it.optimizer.zero_grad();
    it.backward(group->rank());
    torch::optim::SGD other(it.net->parameters(), torch::optim::SGDOptions(0.1));
    group->barrier();
    other.step();  // reads NaN
    group->barrier();
    expect_part(fuse_error([&] { it.optimizer.step(); }), "was written between backward and the step");
  });
}

TEST_P(Stage2Grad, ShowsZerosAfterZeroGrad) {
  fuse_ranks(GetParam(), 2, [](Group group) {
    Stage2Net it(group);
    StepOptions zeroing;
    zeroing.zero_grad = true;
    it.optimizer.step_with(zeroing);
    for (const at::Tensor& parameter : it.net->parameters()) {
      EXPECT_TRUE(torch::equal(parameter.grad(), torch::zeros_like(parameter)));
    }
    it.backward(group->rank());
    EXPECT_TRUE(it.net->linear->weight.grad().isnan().all().item<bool>());
    it.optimizer.zero_grad();
    EXPECT_TRUE(torch::equal(it.net->linear->weight.grad(), torch::zeros({4, 20})));
    it.backward(group->rank());
    it.optimizer.step();
  });
}

// An exception within a backward that is not synchronised takes nothing away from what was sent before.
TEST_P(Stage2Grad, KeepsWhatWasSentIfALaterBackwardThrows) {
  fuse_ranks(GetParam(), 2, [](Group group) {
    Stage2Net it(group), same(group);
    {
      const auto quiet = it.ddp.no_sync();
      const at::Tensor output = it.ddp(fuse_batch(group->rank(), 1, 20));
      const at::Tensor loss = output.pow(2).mean();
      output.register_hook([](const at::Tensor&) -> void { throw std::runtime_error("stopped"); });
      EXPECT_THROW(loss.backward(), std::runtime_error);
    }
    EXPECT_TRUE(it.net->linear->weight.grad().isnan().all().item<bool>());
    it.optimizer.step();
    same.optimizer.step();
    EXPECT_TRUE(torch::equal(it.net->linear->weight, same.net->linear->weight));
  });
}

// The model is called directly, so that the first that DistributedDataParallel sees of a backward is a gradient.
TEST_P(Stage2Grad, FollowsBackwardsOfTheModuleItself) {
  fuse_ranks(GetParam(), 2, [](Group group) {
    Stage2Net it(group), same(group);
    it.ddp.follow_backward();
    for (int step = 0; step < 3; ++step) {
      it.net(fuse_batch(group->rank(), step, 20)).pow(2).mean().backward();
      same.ddp(fuse_batch(group->rank(), step, 20)).pow(2).mean().backward();
      for (Stage2Net* each : {&it, &same}) each->optimizer.step();
      if (step == 1) {
        for (Stage2Net* each : {&it, &same}) each->net->zero_grad();
      }
    }
    EXPECT_TRUE(torch::equal(it.net->linear->weight, same.net->linear->weight));
  });
}

TEST_P(Stage2Grad, LeavesNoStandInWhenTheWrapperOrTheOptimizerGoes) {
  fuse_ranks(GetParam(), 2, [](Group group) {
    const torch::nn::Linear model = make_linear(20, 4);
    SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1));
    {
      DistributedDataParallel ddp(model, fuse_on(group));
      ddp.fuse(optimizer, stage_2());
      ddp(fuse_batch(group->rank(), 0, 20)).sum().backward();
      optimizer.step();
    }
    EXPECT_FALSE(model->weight.grad().defined());
    DistributedDataParallel ddp(model, fuse_on(group));
    {
      SGD another(model->parameters(), torch::optim::SGDOptions(0.1));
      ddp.fuse(another, stage_2());
      ddp(fuse_batch(group->rank(), 0, 20)).sum().backward();
      another.step();
    }
    EXPECT_FALSE(model->weight.grad().defined());
    ddp(fuse_batch(group->rank(), 1, 20)).sum().backward();
    at::Tensor average = model->weight.grad().clone();
    group->all_reduce(average, ReduceOp::Avg);
    EXPECT_TRUE(torch::equal(model->weight.grad(), average));
  });
}

TEST_P(Stage2Grad, RefusesUnknownStages) {
  fuse_ranks(GetParam(), 2, [](Group group) {
    const torch::nn::Linear model = make_linear(20, 4);
    DistributedDataParallel ddp(model, fuse_on(group));
    SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1));
    FuseOptions how;
    how.stage = 4;
    expect_part(fuse_error([&] { ddp.fuse(optimizer, how); }), "stage is 4");
    expect_part(fuse_error([&] { ddp.fuse(optimizer, stage_2(0)); }), "slots is 0");
    EXPECT_EQ(ddp.fused_step().mode(), FuseMode::Off);
  });
}

// Zeros are a gradient: momentum moves the weights after unfuse, as it does without fuse.
TEST_P(Stage2Grad, UnfuseLeavesZerosWhereZeroGradWroteThem) {
  fuse_ranks(GetParam(), 2, [](Group group) {
    std::vector<at::Tensor> ends;
    for (const bool is_fused : {false, true}) {
      torch::nn::Linear model = make_linear(20, 4);
      DistributedDataParallel ddp(model, Stage2Subject<SGD>::small_buckets(Group(group->split(0))));
      SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
      if (is_fused) ddp.fuse(optimizer, stage_2());
      ddp(fuse_batch(group->rank(), 0, 20)).pow(2).mean().backward();
      optimizer.step();
      optimizer.zero_grad();
      if (is_fused) ddp.fused_step().unfuse();
      optimizer.step();
      ends.push_back(model->weight.detach().clone());
    }
    EXPECT_TRUE(ends[0].equal(ends[1]));
  });
}

}  // namespace
}  // namespace lockstep
