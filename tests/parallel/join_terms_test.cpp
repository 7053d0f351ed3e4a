// Tests what a rank that has run out of inputs must still have in common with the others, whose fused updates it takes
// part in: the module, and the optimizer's lists. It gets the others' options.
#include <gtest/gtest.h>

#include <string>

#include "tests/parallel/fused/terms_rank.h"

namespace lockstep {
namespace {

int steps_of(int rank) { return rank == 1 ? 1 : 3; }

void make_step(TermsSgd& it, int step) {
  it.optimizer.zero_grad();
  it.backward(step);
  it.optimizer.step();
}

TEST(JoinTerms, AnotherListOnARankWithoutInputsIsNamed) {
  for (const TermsCase& how : {kOneCopy, TermsCase{"stage2", "thread", 2}}) {
    fuse_ranks("thread", 3, [&](const Group& group) {
      TermsSgd it(how, group, terms_sgd());
      const std::string text = fuse_error([&] {
        it.ddp.join([&] {
          for (int step = 0; step < steps_of(group->rank()); ++step) make_step(it, step);
          if (group->rank() != 1) return;
          auto& groups = it.optimizer.param_groups();
          groups[1].params().push_back(groups[0].params().back());
          groups[0].params().pop_back();
        });
      });
      expect_terms(text,
                   "the ranks of a fused optimizer disagree in a join: rank 0 has parameter \"head.weight\" at "
                   "place 1 of parameter group 0, rank 1 has 1 parameter in parameter group 0");
      expect_terms(text, "give the optimizer the same options and parameters");
    });
  }
}

TEST(JoinTerms, ARankWithoutInputsFollowsOneModule) {
  fuse_ranks("thread", 2, [](const Group& group) {
    TermsSgd one(kOneCopy, group, terms_sgd()), other(kOneCopy, group, terms_sgd());
    const std::string text = fuse_error([&] {
      one.ddp.join([&] {
        for (int step = 0; step < steps_of(group->rank()); ++step) make_step(step == 1 ? other : one, step);
      });
    });
    expect_terms(text, "rank 0 has a call of the optimizer of module ");
    expect_terms(text, "in the same order on every rank");
  });
}

TEST(JoinTerms, ARankWithoutInputsGetsTheOthersOptions) {
  fuse_ranks("thread", 2, [](const Group& group) {
    TermsSgd it(kOneCopy, group, terms_sgd());
    it.ddp.join([&] {
      for (int step = 0; step < steps_of(group->rank()); ++step) {
        if (step == 2) it.set_option(0, "lr", 0.01);  // a schedule
        make_step(it, step);
      }
      if (group->rank() == 1) it.set_option(1, "momentum", 0.5);
    });
    EXPECT_EQ(it.optimizer.group_options()[0].at("lr"), 0.01);
    EXPECT_EQ(it.optimizer.group_options()[1].at("momentum"), 0.9);
    make_step(it, 3);  // all have inputs again
  });
}

}  // namespace
}  // namespace lockstep
