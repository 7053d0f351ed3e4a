// Tests the comparison of weights that a program asks for, as after its last step, which no backward follows.
#include "lockstep/parallel/same_weights.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/parallel/fused/fuse_ranks.h"

namespace lockstep {
namespace {

TEST(SameWeights, NamesTheFirstTensorThatDiffersOnEveryRank) {
  fuse_ranks("thread", 3, [](const Group& group) {
    torch::nn::BatchNorm1d net(4);
    EXPECT_EQ(fuse_error([&] { require_same_weights(*group, *net); }), "no error");
    if (group->rank() == 2) net->running_mean[1] = 1e-30;
    EXPECT_NE(fuse_error([&] {
                require_same_weights(*group, *net);
              }).find("buffer \"running_mean\" of rank 2 is not that of rank 0"),
              std::string::npos);
    if (group->rank() == 1) net->bias.data()[3] = 1;
    EXPECT_NE(fuse_error([&] {
                require_same_weights(*group, *net);
              }).find("parameter \"bias\" of rank 1 is not that of rank 0"),
              std::string::npos);
  });
}

// A step that one rank leaves out at the end.
TEST(SameWeights, AreNotWhatALastStepOfOneRankLeaves) {
  fuse_ranks("thread", 2, [](const Group& group) {
    torch::nn::Linear net(torch::nn::LinearOptions(2, 2));
    DistributedDataParallel ddp(net, fuse_on(group));
    torch::optim::SGD optimizer(net->parameters(), 0.1);
    ddp(torch::ones({1, 2})).sum().backward();
    if (group->rank() == 0) optimizer.step();
    EXPECT_NE(fuse_error([&] { require_same_weights(*group, *net); }).find("parameter \"weight\""), std::string::npos);
  });
}

// The lines of docs/reference/torch-data.md before an evaluation.
TEST(SameWeights, AreThereOnceRank0sBuffersAreSentAfterTheLastForward) {
  fuse_ranks("thread", 2, [](const Group& group) {
    torch::nn::BatchNorm1d net(2);
    DistributedDataParallel ddp(net, fuse_on(group));
    ddp(torch::tensor({{1.0F, 2.0F}, {3.0F, 5.0F * static_cast<float>(1 + group->rank())}})).pow(2).sum().backward();
    EXPECT_NE(fuse_error([&] { require_same_weights(*group, *net); }).find("buffer \"running_mean\""),
              std::string::npos);
    for (at::Tensor& buffer : net->buffers()) group->broadcast(buffer, 0);
    EXPECT_EQ(fuse_error([&] { require_same_weights(*group, *net); }), "no error");
  });
}

}  // namespace
}  // namespace lockstep
