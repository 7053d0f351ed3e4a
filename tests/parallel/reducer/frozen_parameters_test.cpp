// Tests that all ranks freeze the same parameters after the wrap: the average of a gradient would lack the part of a
// rank that has frozen its parameter, and nothing else shows it.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "lockstep/parallel/communication_hook.h"
#include "tests/parallel/fused/terms_rank.h"

namespace lockstep {
namespace {

constexpr TermsCase kWithShards{"virtual_shards", "thread", 1, true, true};

void frozen_step(TermsSgd& it, int step) {
  it.optimizer.zero_grad();
  it.backward(step);
  it.optimizer.step();
}

class FrozenOnOneRank : public ::testing::TestWithParam<TermsCase> {};
INSTANTIATE_TEST_SUITE_P(Ways, FrozenOnOneRank,
                         ::testing::Values(kOneCopy, TermsCase{"processes", "shm"}, TermsCase{"messages", "tcp"},
                                           TermsCase{"stage2", "thread", 2}, TermsCase{"stage3", "thread", 3, false},
                                           kWithShards),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(FrozenOnOneRank, IsAnErrorOnEveryRank) {
  for (const bool is_fused : {false, true}) {
    for (int who = 0; who < 2; ++who) {
      fuse_ranks(GetParam().engine, 2, [&](const Group& group) {
        TermsSgd it(GetParam(), group, terms_sgd(), is_fused);
        const std::string text = fuse_error([&] {
          for (int step = 0; step < 3; ++step) {
            if (step == 1 && group->rank() == who) it.net->body->bias.requires_grad_(false);
            frozen_step(it, step);
          }
        });
        const std::string trains = " has parameter \"body.bias\" in training";
        const std::string frozen = " has parameter \"body.bias\" frozen (requires_grad_(false))";
        expect_terms(text, "rank 0" + (who == 0 ? frozen : trains) + ", rank 1" + (who == 0 ? trains : frozen));
        expect_terms(text, "call requires_grad_ for the same parameters on every rank");
      });
    }
  }
}

// Frozen in turns, as the two nets of a GAN.
TEST_P(FrozenOnOneRank, IsNoErrorOnAllRanks) {
  for (const bool is_fused : {false, true}) {
    fuse_ranks(GetParam().engine, 2, [&](const Group& group) {
      TermsSgd it(GetParam(), group, terms_sgd(), is_fused);
      for (int step = 0; step < 4; ++step) {
        for (at::Tensor& parameter : it.net->body->parameters()) parameter.requires_grad_(step % 2 == 0);
        frozen_step(it, step);
      }
    });
  }
}

TEST(FrozenParameters, AreComparedBesideAHook) {
  fuse_ranks("thread", 2, [](const Group& group) {
    TermsSgd it(kOneCopy, group, terms_sgd(), false);
    it.ddp.register_comm_hook(make_communication_hook("fp16"));
    if (group->rank() == 1) it.net->head->weight.requires_grad_(false);
    expect_terms(fuse_error([&] { frozen_step(it, 0); }), "rank 1 has parameter \"head.weight\" frozen");
  });
}

TEST(FrozenParameters, OfARankWithoutInputsDoNotCount) {
  for (const bool is_fused : {false, true}) {
    fuse_ranks("thread", 2, [&](const Group& group) {
      TermsSgd it(kOneCopy, group, terms_sgd(), is_fused);
      it.ddp.join([&] {
        for (int step = 0; step < (group->rank() == 1 ? 1 : 3); ++step) {
          if (step == 1) it.net->body->weight.requires_grad_(false);  // a schedule
          frozen_step(it, step);
        }
      });
    });
  }
}

TEST(FrozenParameters, TablesWithSparseGradientsAreCompared) {
  fuse_ranks("thread", 2, [](const Group& group) {
    const torch::nn::Sequential net(torch::nn::Embedding(torch::nn::EmbeddingOptions(4, 6).sparse(true)),
                                    make_linear(6, 2));
    {
      const torch::NoGradGuard no_grad;
      net->parameters()[0].fill_(0.5);
    }
    DistributedDataParallel ddp(net, fuse_on(group));
    if (group->rank() == 1) net->parameters()[0].requires_grad_(false);
    expect_terms(fuse_error([&] {
                   ddp(torch::tensor({0, 3})).sum().backward();
                 }),
                 "rank 1 has parameter \"0.weight\" frozen");
  });
}

}  // namespace
}  // namespace lockstep
