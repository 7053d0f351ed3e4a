// Tests two wrapped modules of one shape, whose messages look alike: ranks that run them in another order would average
// one's gradients, or take one's buffers, for the other's.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/parallel/fused/fuse_ranks.h"

namespace lockstep {
namespace {

struct TwinImpl : torch::nn::Module {
  TwinImpl() {
    register_module("layer", layer);
    register_module("norm", norm);
  }
  torch::Tensor forward(const torch::Tensor& x) { return norm->forward(layer->forward(x)); }
  torch::nn::Linear layer = make_linear(4, 4);
  torch::nn::BatchNorm1d norm{4};
};
TORCH_MODULE(Twin);

TEST(TwoModules, BackwardsInAnotherOrderAreAnError) {
  for (const char* engine : {"thread", "tcp"}) {
    fuse_ranks(engine, 2, [](const Group& group) {
      Twin a, b;
      auto options = fuse_on(group);
      options.broadcast_buffers = false;
      DistributedDataParallel first(a, options), second(b, options);
      const std::string text = fuse_error([&] {
        at::Tensor of_first = first(fuse_batch(group->rank(), 0, 4)).pow(2).mean();
        at::Tensor of_second = second(fuse_batch(group->rank(), 1, 4)).pow(2).mean();
        (group->rank() == 0 ? of_first : of_second).backward();
        (group->rank() == 0 ? of_second : of_first).backward();
      });
      EXPECT_NE(text.find("the ranks run backwards of different modules: rank 0 has a backward of module 1 (as the "
                          "group's modules were wrapped), rank 1 has a backward of module 2"),
                std::string::npos)
          << text;
      EXPECT_NE(text.find("in the same order on every rank"), std::string::npos) << text;
    });
  }
}

TEST(TwoModules, ForwardsInAnotherOrderAreAnError) {
  fuse_ranks("thread", 2, [](const Group& group) {
    Twin a, b;
    DistributedDataParallel first(a, fuse_on(group)), second(b, fuse_on(group));
    const std::string text = fuse_error([&] {
      (group->rank() == 0 ? first : second)(fuse_batch(group->rank(), 0, 4));
      (group->rank() == 0 ? second : first)(fuse_batch(group->rank(), 0, 4));
      group->barrier();
    });
    EXPECT_NE(text.find("rank 0 sends the buffers of module 1"), std::string::npos) << text;
    EXPECT_NE(text.find("rank 1 runs a forward of module 2"), std::string::npos) << text;
  });
}

TEST(TwoModules, TheSameOrderIsRight) {
  fuse_ranks("thread", 2, [](const Group& group) {
    Twin a, b;
    DistributedDataParallel first(a, fuse_on(group)), second(b, fuse_on(group));
    for (int step = 0; step < 3; ++step) {
      at::Tensor of_first = first(fuse_batch(group->rank(), step, 4)).pow(2).mean();
      at::Tensor of_second = second(fuse_batch(group->rank(), step, 4)).pow(2).mean();
      (step == 1 ? of_first : of_second).backward();
      (step == 1 ? of_second : of_first).backward();
    }
  });
}

}  // namespace
}  // namespace lockstep
