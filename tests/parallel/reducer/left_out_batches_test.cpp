// Tests that a batch that only one rank leaves out between forward and backward is a warning, once: that rank may
// have taken another batch instead, or be one step behind.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>

#include "lockstep/optim/sgd.h"
#include "tests/parallel/fused/fuse_ranks.h"

namespace lockstep {
namespace {

struct LeftOutCase {
  const char* name;
  bool is_warning;
  // A rank's forwards before its backward. @param extra  this rank alone does more
  std::function<void(DistributedDataParallel<torch::nn::Linear>&, bool extra)> before;
};

void PrintTo(const LeftOutCase& each, std::ostream* out) { *out << each.name; }

class LeftOutBatches : public ::testing::TestWithParam<LeftOutCase> {};

TEST_P(LeftOutBatches, AreAWarningOfPlainBackwards) {
  ::testing::internal::CaptureStderr();
  fuse_ranks("thread", 2, [](const Group& group) {
    torch::nn::Linear model = make_linear(4, 2);
    DistributedDataParallel ddp(model, fuse_on(group));
    SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1));
    for (int step = 0; step < 5; ++step) {
      optimizer.zero_grad();
      GetParam().before(ddp, step % 2 == 1 && group->rank() == 1);
      ddp(fuse_batch(group->rank(), step, 4)).pow(2).mean().backward();
      optimizer.step();
    }
  });
  const std::string log = ::testing::internal::GetCapturedStderr();
  const std::string what =
      "rank 0 has made 0 forwards without a backward since the last backward, and rank 1 has made 1 forward";
  EXPECT_EQ(log.find(what) != std::string::npos, GetParam().is_warning) << log;
  EXPECT_EQ(log.find(what), log.rfind(what)) << "once is enough: " << log;
}

INSTANTIATE_TEST_SUITE_P(Cases, LeftOutBatches,
                         ::testing::Values(LeftOutCase{"left_out", true,
                                                       [](auto& ddp, bool extra) {
                                                         if (extra) ddp(torch::ones({1, 4}));
                                                       }},
                                           LeftOutCase{"left_out_by_all", false,
                                                       [](auto& ddp, bool) {
                                                         ddp(torch::ones({1, 4}));
                                                       }},
                                           LeftOutCase{"evaluated_without_gradients", false,
                                                       [](auto& ddp, bool extra) {
                                                         const torch::NoGradGuard no_grad;
                                                         if (extra) ddp(torch::ones({1, 4}));
                                                       }},
                                           LeftOutCase{"evaluated_in_evaluation_mode", false,
                                                       [](auto& ddp, bool extra) {
                                                         ddp.eval();
                                                         if (extra) ddp(torch::ones({1, 4}));
                                                         ddp.train();
                                                       }},
                                           LeftOutCase{"accumulated", false,
                                                       [](auto& ddp, bool extra) {
                                                         const auto local = ddp.no_sync();
                                                         if (extra) ddp(torch::ones({1, 4})).sum().backward();
                                                       }}),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace lockstep
