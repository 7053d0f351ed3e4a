// Tests that ranks agree before an update whose work they share: on the optimizer's options and parameters, on the
// arguments of their calls, and on the place in the training. A rank that differs is named, with both values.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/optim/clip_grad_norm.h"
#include "lockstep/optim/grad_scaler.h"
#include "tests/parallel/fused/terms_rank.h"

namespace lockstep {
namespace {

using torch::optim::AdamOptions;
using torch::optim::SGDOptions;

class UpdateTermsOf : public ::testing::TestWithParam<TermsCase> {};

INSTANTIATE_TEST_SUITE_P(
    Ways, UpdateTermsOf,
    ::testing::Values(kOneCopy, TermsCase{"processes", "shm"}, TermsCase{"own_weights", "thread", 1, false},
                      TermsCase{"messages", "tcp"}, TermsCase{"stage2", "thread", 2},
                      TermsCase{"stage2_own_weights", "thread", 2, false}, TermsCase{"stage3", "thread", 3, false},
                      TermsCase{"stage3_messages", "tcp", 3}, TermsCase{"virtual_shards", "thread", 1, true, true}),
    [](const auto& test) { return std::string(test.param.name); });

TEST_P(UpdateTermsOf, AnotherLearningRateOnOneRankIsNamed) {
  fuse_ranks(GetParam().engine, 2, [&](const Group& group) {
    TermsSgd it(GetParam(), group, terms_sgd());
    const std::string text = fuse_error([&] {
      for (int step = 0; step < 3; ++step) {
        it.set_option(1, "lr", step == 2 && group->rank() == 1 ? 0.05 : 0.2);  // a schedule
        it.optimizer.zero_grad();
        it.backward(step);
        it.optimizer.step();
      }
      FAIL() << "no error";
    });
    expect_terms(text, "rank 0 has lr 0.2 in parameter group 1, rank 1 has lr 0.05 in parameter group 1");
  });
}

TEST_P(UpdateTermsOf, AStepThatOneRankLeavesOutIsAnError) {
  for (int who = 0; who < 2; ++who) {
    fuse_ranks(GetParam().engine, 2, [&](const Group& group) {
      TermsSgd it(GetParam(), group, terms_sgd());
      const std::string text = fuse_error([&] {
        for (int step = 0; step < 4; ++step) {
          it.optimizer.zero_grad();
          it.backward(step);
          if (step == 1 && group->rank() == who) continue;
          it.optimizer.step();
        }
      });
      const bool is_told_later = GetParam().shares && GetParam().stage == 1 && std::string(GetParam().engine) != "tcp";
      if (GetParam().has_shards) {
        expect_terms(text, "ranks are in different updates of run_shards");
      } else if (is_told_later) {
        const std::string one = " has 1 synchronised backward since its last step";
        const std::string two = " has 2 synchronised backwards since its last step";
        expect_terms(text, "rank 0" + (who == 0 ? two : one) + ", rank 1" + (who == 0 ? one : two));
        expect_terms(text, "Decide it by a number that all ranks have");
      } else {
        expect_terms(text, "the ranks of a fused optimizer are in different places of the training: rank 0 is in a ");
        const std::string stays =
            "is in a step or clipping, with 1 synchronised backward since step 1 of the optimizer";
        expect_terms(text, "rank " + std::to_string(1 - who) + " " + stays);
        expect_terms(
            text, "rank " + std::to_string(who) + (GetParam().stage == 3 ? " is in a forward" : " is in a backward"));
        expect_terms(text, "Decide it by a number that all ranks have");
        expect_terms(text, "(the ranks disagree: ");
      }
    });
  }
}

TEST_P(UpdateTermsOf, EqualOptionsThatChangeAreNoError) {
  fuse_ranks(GetParam().engine, 2, [&](const Group& group) {
    std::vector<at::Tensor> ends;
    for (const bool is_fused : {false, true}) {
      TermsSgd it(GetParam(), group, terms_sgd(), is_fused);
      for (int step = 0; step < 4; ++step) {
        it.set_option(0, "lr", 0.1 / (step + 1));
        it.set_option(1, "weight_decay", 0.01 * step);
        it.optimizer.zero_grad();
        it.backward(step);
        it.optimizer.step();
      }
      if (is_fused) it.ddp.fused_step().unfuse();
      ends.push_back(it.net->body->weight.detach().clone());
    }
    EXPECT_LE((ends[0] - ends[1]).abs().max().item<double>(), 1e-6);
  });
}

// @param value  that rank 1 alone has
template <typename Rank>
void expect_option_is_named(const typename Rank::Options& options, const std::string& name, double value) {
  for (const std::size_t in_group : {std::size_t{0}, std::size_t{1}}) {
    fuse_ranks("thread", 2, [&](const Group& group) {
      Rank it(kOneCopy, group, options);
      const double before = it.optimizer.group_options()[in_group].at(name);
      if (group->rank() == 1) it.set_option(in_group, name, value);
      it.backward(0);
      const std::string text = fuse_error([&] { it.optimizer.step(); });
      const auto says = [&](int rank, double has) {
        return fmt::format("rank {} has {} {} in parameter group {}", rank, name, has, in_group);
      };
      expect_terms(text, says(0, before) + ", " + says(1, value));
      // The group lives on: a program may set what differs, and make the step.
      if (group->rank() == 1) it.set_option(in_group, name, before);
      it.optimizer.step();
    });
  }
}

TEST(UpdateTerms, EveryOptionOfEveryGroupIsCompared) {
  const std::vector<std::pair<const char*, double>> of_sgd{
      {"lr", 0.3}, {"momentum", 0.8}, {"weight_decay", 1e-9}, {"nesterov", 1}};
  for (const auto& [name, value] : of_sgd) expect_option_is_named<TermsSgd>(terms_sgd(), name, value);
  expect_option_is_named<TermsSgd>(terms_sgd(), "dampening", 0.1);
  const std::vector<std::pair<const char*, double>> of_adam{{"lr", 0.3},   {"beta1", 0.8},        {"beta2", 0.9},
                                                            {"eps", 1e-7}, {"weight_decay", 0.1}, {"amsgrad", 1}};
  for (const auto& [name, value] : of_adam) expect_option_is_named<TermsAdam>(AdamOptions(0.1), name, value);
}

// Each makes another call than the other rank.
TEST(UpdateTerms, EveryArgumentOfACallIsCompared) {
  struct Calls {
    const char* named;
    std::function<void(TermsSgd&, bool is_other)> make;
  };
  const auto all = [](TermsSgd& it) { return it.net->parameters(); };
  const std::vector<Calls> calls{
      {"max_norm 2", [&](TermsSgd& it, bool other) { clip_grad_norm_(all(it), other ? 2 : 1e9); }},
      {"norm_type 1", [&](TermsSgd& it, bool other) { clip_grad_norm_(all(it), 1e9, other ? 1 : 2); }},
      {"error_if_nonfinite true", [&](TermsSgd& it, bool other) { clip_grad_norm_(all(it), 1e9, 2, other); }},
      {"of 1 parameter",
       [&](TermsSgd& it, bool other) {
         clip_grad_norm_(other ? std::vector<at::Tensor>{it.net->head->bias} : all(it), 1e9);
       }},
      {"parameter \"head.bias\" in that call",
       [](TermsSgd& it, bool other) { clip_grad_norm_({other ? it.net->head->bias : it.net->body->bias}, 1e9); }},
      {"a step with max_norm 3",
       [](TermsSgd& it, bool other) {
         StepOptions options;
         options.max_norm = other ? 3 : 2;
         it.optimizer.step_with(options);
       }},
      {"gradient_factor 0.25",
       [](TermsSgd& it, bool other) {
         GradScaler::Options options;
         options.init_scale = other ? 4 : 2;
         GradScaler scaler(options);
         scaler.step(it.optimizer);
       }},
      {"a clip_grad_norm_ with max_norm 1",
       [&](TermsSgd& it, bool other) { other ? void(clip_grad_norm_(all(it), 1)) : void(it.optimizer.step()); }}};
  for (const Calls& call : calls) {
    SCOPED_TRACE(call.named);
    fuse_ranks("thread", 3, [&](const Group& group) {
      TermsSgd it(kOneCopy, group, terms_sgd());
      it.backward(0);
      const std::string text = fuse_error([&] { call.make(it, group->rank() == 2); });
      expect_terms(text, "the ranks of a fused optimizer disagree: rank 0 has ");
      expect_terms(text, ", rank 2 has ");
      expect_terms(text.substr(text.find(", rank 2 has ")), call.named);
    });
  }
}

TEST(UpdateTerms, AStepThatOneRankMakesTwiceIsAnError) {
  fuse_ranks("thread", 2, [](const Group& group) {
    TermsSgd it(kOneCopy, group, terms_sgd());
    const std::string text = fuse_error([&] {
      for (int step = 0; step < 3; ++step) {
        it.optimizer.zero_grad();
        it.backward(step);
        it.optimizer.step();
        if (step == 1 && group->rank() == 1) it.optimizer.step();
      }
    });
    expect_terms(text, "rank 0 has 1 synchronised backward since its last step, rank 1 has 0 synchronised backwards");
  });
}

TEST(UpdateTerms, BackwardsThatAreNotSynchronisedMayDiffer) {
  fuse_ranks("thread", 2, [](const Group& group) {
    TermsSgd it(kOneCopy, group, terms_sgd());
    for (int step = 0; step < 3; ++step) {
      it.optimizer.zero_grad();
      for (int part = 0; part < group->rank() + step; ++part) {
        const auto local = it.ddp.no_sync();
        it.backward(part);
      }
      it.backward(step);
      it.optimizer.step();
    }
  });
}

// A batch that one rank leaves out before its backward may be what the program wants.
TEST(UpdateTerms, ABatchThatOneRankLeavesOutIsAWarning) {
  for (const bool is_zeroed_first : {true, false}) {
    for (const bool leaves_out : {true, false}) {
      ::testing::internal::CaptureStderr();
      fuse_ranks("thread", 2, [&](const Group& group) {
        TermsSgd it(kOneCopy, group, terms_sgd());
        const int steps = 5 + (leaves_out && group->rank() == 1 ? 1 : 0);
        for (int step = 0; step < steps; ++step) {
          if (is_zeroed_first) it.optimizer.zero_grad();
          const at::Tensor loss = it.ddp(fuse_batch(group->rank(), step, 6)).pow(2).mean();
          if (leaves_out && step == 2 && group->rank() == 1) continue;  // as for a loss that is not finite
          if (!is_zeroed_first) it.optimizer.zero_grad();
          loss.backward();
          it.optimizer.step();
        }
      });
      const std::string log = ::testing::internal::GetCapturedStderr();
      const std::string what = is_zeroed_first
                                   ? "rank 1 has called zero_grad() 2 times and made 1 forward without a backward"
                                   : "rank 1 has called zero_grad() 1 time and made 1 forward without a backward";
      EXPECT_EQ(log.find(what) != std::string::npos, leaves_out) << log;
      EXPECT_EQ(log.find(what), log.rfind(what)) << "once is enough: " << log;
    }
  }
}

}  // namespace
}  // namespace lockstep
