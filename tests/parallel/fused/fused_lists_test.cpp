// Tests that ranks agree on what they fuse, and on lists of parameters that change afterwards: each change is followed,
// or is an error or a warning that names the parameter.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/parallel/fused/terms_rank.h"

namespace lockstep {
namespace {

using torch::optim::AdamOptions;
using torch::optim::OptimizerParamGroup;

TEST(FusedLists, FuseComparesItsArguments) {
  struct Fused {
    const char* named;
    std::function<void(const Group&, bool is_other)> fuse;
  };
  const auto of_lists = [](const Group& group, const std::function<std::vector<OptimizerParamGroup>(TermsNet&)>& make) {
    TermsNet net;
    DistributedDataParallel ddp(net, fuse_on(group));
    SGD optimizer(make(net), terms_sgd());
    ddp.fuse(optimizer);
  };
  const std::vector<Fused> all{{"rank 0 has share_weights true, rank 1 has share_weights false",
                                [](const Group& group, bool other) {
                                  TermsSgd it({"", "", 1, !other}, group, terms_sgd());
                                }},
                               {"rank 0 has stage 1, rank 1 has stage 2",
                                [](const Group& group, bool other) {
                                  TermsSgd it({"", "", other ? 2 : 1}, group, terms_sgd());
                                }},
                               {"rank 0 has a lockstep::SGD, rank 1 has a lockstep::Adam",
                                [](const Group& group, bool other) {
                                  if (other) {
                                    TermsAdam it(kOneCopy, group, AdamOptions(0.1));
                                  } else {
                                    TermsSgd it(kOneCopy, group, terms_sgd());
                                  }
                                }},
                               {"rank 0 has 1 parameter group, rank 1 has 2 parameter groups",
                                [&](const Group& group, bool other) {
                                  of_lists(group, [&](TermsNet& net) {
                                    std::vector<OptimizerParamGroup> one;
                                    one.emplace_back(net->parameters());
                                    return other ? two_groups(net, terms_sgd()) : one;
                                  });
                                }},
                               {"rank 0 has parameter \"body.weight\" at place 0 of parameter group 0, rank 1 has "
                                "parameter \"head.bias\" at place 0",
                                [&](const Group& group, bool other) {
                                  of_lists(group, [&](TermsNet& net) {
                                    std::vector<at::Tensor> parameters = net->parameters();
                                    if (other) std::reverse(parameters.begin(), parameters.end());
                                    std::vector<OptimizerParamGroup> one;
                                    one.emplace_back(parameters);
                                    return one;
                                  });
                                }}};
  for (const Fused& each : all) {
    SCOPED_TRACE(each.named);
    fuse_ranks("thread", 2, [&](const Group& group) {
      const std::string text = fuse_error([&] { each.fuse(group, group->rank() == 1); });
      expect_terms(text, "the ranks call fuse with different arguments: " + std::string(each.named));
    });
  }
}

// Lists that change after fuse.
TEST(FusedLists, AGroupThatOneRankAddsIsNamed) {
  fuse_ranks("thread", 2, [](const Group& group) {
    TermsNet net;
    auto wrapped = fuse_on(group);
    wrapped.bucket_cap_mb = 0.00001;  // a bucket for each parameter
    DistributedDataParallel ddp(net, wrapped);
    SGD optimizer(net->head->parameters(), terms_sgd());
    ASSERT_NE(ddp.fuse(optimizer).mode(), FuseMode::Off);
    if (group->rank() == 1) optimizer.add_param_group(OptimizerParamGroup(net->body->parameters()));
    ddp(fuse_batch(group->rank(), 0, 6)).sum().backward();
    expect_terms(fuse_error([&] { optimizer.step(); }), "rank 0 has 1 parameter group, rank 1 has 2 parameter groups");
  });
}

TEST(FusedLists, AParameterThatOneRankReplacesByAnotherOfTheModuleIsNamed) {
  fuse_ranks("thread", 2, [](const Group& group) {
    TermsNet net;
    auto wrapped = fuse_on(group);
    wrapped.bucket_cap_mb = 0.00001;  // a bucket for each parameter
    DistributedDataParallel ddp(net, wrapped);
    SGD optimizer(net->head->parameters(), terms_sgd());
    ASSERT_NE(ddp.fuse(optimizer).mode(), FuseMode::Off);
    if (group->rank() == 1) optimizer.param_groups()[0].params().back() = net->body->bias;
    ddp(fuse_batch(group->rank(), 0, 6)).sum().backward();
    expect_terms(fuse_error([&] { optimizer.step(); }),
                 "rank 0 has parameter \"head.bias\" at place 1 of parameter group 0, rank 1 has parameter "
                 "\"body.bias\" at place 1 of parameter group 0");
  });
}

TEST(FusedLists, AParameterThatLeavesItsGroupIsAnError) {
  for (const bool is_moved : {true, false}) {
    fuse_ranks("thread", 2, [&](const Group& group) {
      TermsSgd it(kOneCopy, group, terms_sgd());
      auto& from = it.optimizer.param_groups()[1].params();
      if (is_moved) it.optimizer.param_groups()[0].params().push_back(from.back());
      from.pop_back();
      it.backward(0);
      const std::string text = fuse_error([&] { it.optimizer.step(); });
      expect_terms(text, "parameter \"head.bias\" was in parameter group 1 when the optimizer was fused, and is in " +
                             std::string(is_moved ? "group 0" : "no group") + " now");
      expect_terms(text, "call unfuse() before you change the optimizer's lists");
    });
  }
}

TEST(FusedLists, AParameterOfNoWrappedModuleIsAWarning) {
  for (const bool is_wrapped : {true, false}) {
    for (const bool is_there_at_fuse : {true, false}) {
      ::testing::internal::CaptureStderr();
      fuse_ranks("thread", 2, [&](const Group& group) {
        TermsSgd it(kOneCopy, group, terms_sgd(), /*is_fused=*/false);
        torch::nn::Linear more = make_linear(3, 2);
        std::optional<DistributedDataParallel<torch::nn::Linear>> second;
        if (is_wrapped) second.emplace(more, fuse_on(group));
        const auto add = [&] { it.optimizer.add_param_group(OptimizerParamGroup(more->parameters())); };
        if (is_there_at_fuse) add();
        EXPECT_NE(it.ddp.fuse(it.optimizer).mode(), FuseMode::Off);
        for (int step = 0; step < 3; ++step) {
          if (!is_there_at_fuse && step == 1) add();
          it.optimizer.zero_grad();
          it.backward(step);
          it.optimizer.step();
        }
      });
      const std::string log = ::testing::internal::GetCapturedStderr();
      const std::string what = "the optimizer has a parameter of no wrapped module, Float [2, 3] in parameter group 2";
      EXPECT_EQ(log.find(what) != std::string::npos, !is_wrapped) << log;
      EXPECT_EQ(log.find(what), log.rfind(what)) << "once is enough: " << log;
    }
  }
}

// Two models of one shape, whose messages look alike.
TEST(FusedLists, StepsOfTwoOptimizersInAnotherOrderAreAnError) {
  fuse_ranks("thread", 2, [](const Group& group) {
    TermsSgd first(kOneCopy, group, terms_sgd()), second(kOneCopy, group, terms_sgd());
    for (TermsSgd* each : {&first, &second}) each->backward(0);
    const std::string text = fuse_error([&] {
      (group->rank() == 0 ? first : second).optimizer.step();
      (group->rank() == 0 ? second : first).optimizer.step();
    });
    expect_terms(text,
                 "rank 0 has a call of the optimizer of module 1 (as the group's modules were wrapped), rank 1 has "
                 "a call of the optimizer of module 2");
  });
}

}  // namespace
}  // namespace lockstep
