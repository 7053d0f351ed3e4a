// Tests forwards past the wrapper after a forward in no_sync, which decided so far that nothing is sent.
#include <gtest/gtest.h>

#include <optional>

#include "lockstep/optim/sgd.h"
#include "tests/parallel/reducer/normed_policy.h"

namespace lockstep {
namespace {

// Part of a batch in no_sync, and the rest past the wrapper: that backward averages both, and sends buffers.
TEST(PastNoSync, AForwardAfterOneInNoSyncIsFollowed) {
  for (const bool fused : {false, true}) {
    std::optional<at::Tensor> wanted_weights;
    for (const Way way : {Way::Wrapper, Way::Arrow, Way::OtherMember, Way::Module}) {
      SCOPED_TRACE(static_cast<int>(way) + (fused ? 10 : 0));
      at::Tensor weights;
      fuse_ranks("thread", 2, [&](const Group& group) {
        NormedPolicy net;
        DistributedDataParallel ddp(net, fuse_on(group));
        lockstep::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1));
        if (fused) ddp.fuse(optimizer);
        for (int step = 0; step < 3; ++step) {
          optimizer.zero_grad();
          for (int part = 0; part < 2; ++part) {
            const auto quiet = ddp.no_sync();
            ddp(policy_batch(group->rank(), part)).pow(3).sum().backward();
          }
          forward_by(way, ddp, net, policy_batch(group->rank(), step), step).pow(3).sum().backward();
          if (way != Way::Wrapper) {
            at::Tensor first = net->calls.clone();
            group->broadcast(first);
            EXPECT_TRUE(first.equal(net->calls)) << "on rank " << group->rank();
          }
          optimizer.step();
        }
        ddp.fused_step().unfuse();
        if (group->rank() == 0) weights = weights_of(net);
        group->barrier();
      });
      if (!wanted_weights) wanted_weights = weights;
      EXPECT_TRUE(weights.allclose(*wanted_weights, 1e-9, 1e-9)) << weights << *wanted_weights;
    }
  }
}

// The forward decides, wherever its backward runs.
TEST(PastNoSync, ABackwardOfAForwardInNoSyncStaysLocal) {
  fuse_ranks("thread", 2, [](const Group& group) {
    NormedPolicy net;
    DistributedDataParallel ddp(net, fuse_on(group));
    at::Tensor loss;
    {
      const auto quiet = ddp.no_sync();
      loss = ddp(policy_batch(group->rank(), 0)).pow(3).sum();
    }
    EXPECT_TRUE(ddp->is_training());
    loss.backward();
    at::Tensor average = net->body->weight.grad().clone();
    group->all_reduce(average, ReduceOp::Avg);
    EXPECT_FALSE(average.allclose(net->body->weight.grad()));
    const auto quiet = ddp.no_sync();
    ddp->forward(policy_batch(group->rank(), 1)).sum().backward();
    average = net->body->weight.grad().clone();
    group->all_reduce(average, ReduceOp::Avg);
    EXPECT_FALSE(average.allclose(net->body->weight.grad())) << "a plain call in no_sync was averaged";
  });
}

}  // namespace
}  // namespace lockstep
