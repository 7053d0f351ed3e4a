// Tests programs that change weights and gradients of a fused optimizer outside its step: another optimizer, clipping,
// writing by hand. Either the result is that without fuse, or every rank gets an error that says what to write instead.
#include <gtest/gtest.h>

#include "lockstep/optim/adam.h"
#include "lockstep/optim/clip_grad_norm.h"
#include "lockstep/optim/sgd.h"
#include "tests/parallel/fused/fuse_ranks.h"

namespace lockstep {
namespace {

using torch::nn::Linear;
using torch::optim::AdamOptions;
using torch::optim::SGDOptions;

class FuseMisuse : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Engines, FuseMisuse, ::testing::Values("thread", "gloo"),
                         [](const auto& test) { return std::string(test.param); });
INSTANTIATE_TEST_SUITE_P(EnginesLong, FuseMisuse, ::testing::Values("shm"),
                         [](const auto& test) { return std::string(test.param); });

template <typename Optimizer>
struct Misused {
  explicit Misused(const Group& group, bool fused = true, int width = 20)
      : model(make_linear(width, 4)),
        ddp(model, fuse_on(group)),
        optimizer(model->parameters(), typename Optimizer::Options(0.05)) {
    if (fused) ddp.fuse(optimizer);
  }
  void backward(int rank, int step) {
    ddp(fuse_batch(rank, step, static_cast<int>(model->weight.size(1)))).pow(2).mean().backward();
  }
  at::Tensor weights() const { return torch::cat({model->weight.detach().flatten(), model->bias.detach()}).clone(); }

  Linear model;
  DistributedDataParallel<Linear> ddp;
  Optimizer optimizer;
};
using MisusedModel = Misused<Adam>;

double largest_difference(const at::Tensor& a, const at::Tensor& b) { return (a - b).abs().max().item<double>(); }

void expect_text(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

template <typename Other>
void expect_other_optimizer_is_noticed(const char* engine, Other make_other) {
  fuse_ranks(engine, 2, [&](Group group) {
    MisusedModel it(Group(group->split(0)));
    auto other = make_other(it.model->parameters());
    it.backward(group->rank(), 0);
    it.optimizer.step();
    group->barrier();  // the first rank that notices ends the group of `it`, so all must have left the step
    const std::string text = fuse_error([&] {
      for (int step = 1; step < 4; ++step) {  // the first write could be a bound that the program sets
        other.zero_grad();
        it.backward(group->rank(), step);
        other.step();
      }
    });
    expect_text(text, "\"weight\" was written between backward and the step of the fused optimizer");
  });
}

TEST_P(FuseMisuse, NoticesThatAnotherOptimizerSteps) {
  expect_other_optimizer_is_noticed(GetParam(), [](const std::vector<at::Tensor>& parameters) {
    return torch::optim::SGD(parameters, SGDOptions(0.1));  // writes without increasing the version counter
  });
  expect_other_optimizer_is_noticed(GetParam(), [](const std::vector<at::Tensor>& parameters) {
    return torch::optim::Adam(parameters, AdamOptions(0.1));
  });
}

TEST_P(FuseMisuse, NoticesAnotherOptimizerAtTheStepAndAtZeroGrad) {
  fuse_ranks(GetParam(), 2, [](Group group) {
    for (const bool at_step : {true, false}) {
      MisusedModel it(Group(group->split(0)));
      torch::optim::SGD other(it.model->parameters(), SGDOptions(0.1));
      it.backward(group->rank(), 0);
      other.step();
      group->barrier();  // an error on one rank ends the group of `it`, so all must have written
      const std::string text = fuse_error([&] {
        if (at_step) {
          it.optimizer.step();
        } else {
          it.optimizer.zero_grad();
        }
      });
      expect_text(text, "\"weight\" was written between backward and the step of the fused optimizer");
      expect_text(text, "call step() of the optimizer that fuse was given");
    }
  });
}

// Each permitted way of writing by hand, compared with the same program without fuse.
TEST_P(FuseMisuse, LetsWeightsBeWrittenBetweenSteps) {
  fuse_ranks(GetParam(), 2, [](Group group) {
    std::vector<at::Tensor> ends;
    for (const bool fused : {false, true}) {
      MisusedModel it(group, fused);
      const torch::NoGradGuard no_grad;
      const auto train = [&](int step) {
        const torch::AutoGradMode with_grad(true);
        it.backward(group->rank(), step);
      };
      it.model->weight.copy_(torch::full({4, 20}, 0.25));  // the same values on all ranks, before the first forward
      group->barrier();
      train(0);
      it.optimizer.step();
      group->barrier();
      it.model->weight.sub_(0.5);
      group->barrier();
      train(1);
      it.optimizer.zero_grad();  // no step uses this backward
      group->barrier();          // on no rank
      it.model->bias.copy_(torch::full({4}, 0.125));
      group->barrier();
      train(2);
      it.optimizer.step();
      ends.push_back(it.weights());
    }
    EXPECT_LE(largest_difference(ends[0], ends[1]), 1e-6);
  });
}

TEST_P(FuseMisuse, ClipsAListOfParametersAsWithoutFuse) {
  fuse_ranks(GetParam(), 3, [](Group group) {
    for (const double type : {2.0, 1.0, std::numeric_limits<double>::infinity(), 0.0}) {
      for (const bool whole : {true, false}) {
        std::vector<at::Tensor> ends;
        std::vector<double> norms;
        for (const bool fused : {false, true}) {
          MisusedModel it(group, fused);
          for (int step = 0; step < 2; ++step) {
            it.optimizer.zero_grad();
            it.backward(group->rank(), step);
            const auto list = whole ? it.model->parameters() : std::vector<at::Tensor>{it.model->bias};
            norms.push_back(clip_grad_norm_(list, 0.1, type));
            it.optimizer.step();
          }
          ends.push_back(it.weights());
        }
        EXPECT_NEAR(norms[0], norms[2], 1e-6 * norms[0]) << type << " " << whole;
        EXPECT_NEAR(norms[1], norms[3], 1e-6 * norms[1]) << type << " " << whole;
        EXPECT_LE(largest_difference(ends[0], ends[1]), 2e-6) << type << " " << whole;
        at::Tensor all = torch::empty({3, 2}, torch::kDouble);
        group->all_gather(all, torch::tensor({norms[2], norms[3]}, torch::kDouble));
        EXPECT_TRUE(torch::equal(all[0], all[1]) && torch::equal(all[0], all[2]));
      }
    }
  });
}

// One list with two fused models, and a layer that neither optimizer updates.
TEST_P(FuseMisuse, ClipsSeveralModelsTogether) {
  fuse_ranks(GetParam(), 2, [](Group group) {
    std::vector<at::Tensor> ends;
    std::vector<double> norms;
    for (const bool fused : {false, true}) {
      MisusedModel first(group, fused), second(group, fused, 12), plain(group, false, 8);
      for (MisusedModel* it : {&first, &second, &plain}) it->backward(group->rank(), 1);
      std::vector<at::Tensor> all = plain.model->parameters();
      for (MisusedModel* it : {&first, &second}) {
        for (const at::Tensor& parameter : it->model->parameters()) all.push_back(parameter);
      }
      norms.push_back(clip_grad_norm_(all, 0.1));
      for (MisusedModel* it : {&first, &second, &plain}) it->optimizer.step();
      ends.push_back(torch::cat({first.weights(), second.weights(), plain.weights()}));
    }
    EXPECT_NEAR(norms[0], norms[1], 1e-6 * norms[0]);
    EXPECT_LE(largest_difference(ends[0], ends[1]), 2e-6);
  });
}

TEST_P(FuseMisuse, ClipsAListWhileRanksRunOutOfInputs) {
  fuse_ranks(GetParam(), 3, [](Group group) {
    std::vector<at::Tensor> ends;
    for (const bool fused : {false, true}) {
      Misused<SGD> it(group, fused);
      it.ddp.join([&] {
        for (int step = 0; step < 1 + group->rank(); ++step) {
          it.optimizer.zero_grad();
          it.backward(group->rank(), step);
          clip_grad_norm_({it.model->weight}, 0.1);
          it.optimizer.step();
        }
      });
      ends.push_back(it.weights());
    }
    EXPECT_LE(largest_difference(ends[0], ends[1]), 2e-6);
  });
}

TEST_P(FuseMisuse, RefusesToClipDifferentListsOnDifferentRanks) {
  fuse_ranks(GetParam(), 2, [](Group group) {
    MisusedModel it(group);
    it.backward(group->rank(), 0);
    const auto list = group->rank() == 0 ? it.model->parameters() : std::vector<at::Tensor>{it.model->bias};
    expect_text(fuse_error([&] { clip_grad_norm_(list, 0.1); }), "disagree");
  });
}

// LibTorch's functions see only this rank's gradients.
TEST_P(FuseMisuse, NoticesLibTorchsClipping) {
  fuse_ranks(GetParam(), 2, [](Group group) {
    for (const bool by_value : {false, true}) {
      MisusedModel it(group);
      it.backward(group->rank(), 0);
      it.optimizer.step();
      it.optimizer.zero_grad();
      it.backward(group->rank(), 1);
      if (by_value) {
        torch::nn::utils::clip_grad_value_(it.model->parameters(), 1e-4);
      } else {
        torch::nn::utils::clip_grad_norm_(it.model->parameters(), 1e-3);
      }
      const std::string text = fuse_error([&] { it.optimizer.step(); });
      expect_text(text, "the gradient of parameter \"weight\" was changed after backward");
      expect_text(text, "write lockstep::clip_grad_norm_(model->parameters(), max_norm)");
    }
  });
}

TEST_P(FuseMisuse, RefusesToClipByValue) {
  fuse_ranks(GetParam(), 2, [](Group group) {
    MisusedModel it(group), unfused(group, false);
    for (MisusedModel* each : {&it, &unfused}) each->backward(group->rank(), 0);
    expect_text(fuse_error([&] { clip_grad_value_(it.model->parameters(), 1e-4); }), "clip by norm");
    clip_grad_value_(unfused.model->parameters(), 1e-4);
    EXPECT_LE(unfused.model->weight.grad().abs().max().item<double>(), 1e-4 * 1.0001);
  });
}

// If all ranks are below the bound, so is the average: the program is correct, and may continue.
TEST_P(FuseMisuse, LeavesClippingAloneThatClipsNothing) {
  fuse_ranks(GetParam(), 2, [](Group group) {
    std::vector<at::Tensor> ends;
    for (const bool fused : {false, true}) {
      MisusedModel it(group, fused);
      for (int step = 0; step < 2; ++step) {
        it.optimizer.zero_grad();
        it.backward(group->rank(), step);
        torch::nn::utils::clip_grad_norm_(it.model->parameters(), 1e4);
        it.optimizer.step();
      }
      ends.push_back(it.weights());
    }
    EXPECT_LE(largest_difference(ends[0], ends[1]), 1e-6);
  });
}

TEST_P(FuseMisuse, ScalesGradientsByHandAsWithoutFuse) {
  fuse_ranks(GetParam(), 2, [](Group group) {
    std::vector<at::Tensor> ends;
    for (const bool fused : {false, true}) {
      Misused<SGD> it(group, fused);
      it.backward(group->rank(), 1);
      for (at::Tensor& parameter : it.model->parameters()) parameter.mutable_grad().mul_(0.25);
      it.optimizer.step();
      ends.push_back(it.weights());
    }
    EXPECT_LE(largest_difference(ends[0], ends[1]), 1e-6);
  });
}

}  // namespace
}  // namespace lockstep
