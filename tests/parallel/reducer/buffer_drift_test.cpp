// Tests that buffers do not drift apart in silence: if only one rank writes or loads one that is not sent, every
// rank's log says so.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>

#include "tests/parallel/fused/fuse_ranks.h"

namespace lockstep {
namespace {

constexpr int kBufferRanks = 2;

// Buffers without storage have no memory to look at.
TEST(BufferDrift, SparseBuffersAreLeftAlone) {
  fuse_ranks("thread", kBufferRanks, [](const Group& group) {
    torch::nn::Linear model = make_linear(3, 1);
    model->register_buffer("adjacency", torch::eye(3).to_sparse());
    auto options = fuse_on(group);
    options.broadcast_buffers = false;
    options.init_sync = false;
    DistributedDataParallel ddp(model, options);
    for (int step = 0; step < 2; ++step) ddp(torch::ones({1, 3})).sum().backward();
  });
}

// Averages of batch normalisation may differ if they are not sent, so loading them on one rank is a warning.
TEST(BufferDrift, BuffersThatOneRankAloneLoadsAreAWarning) {
  for (const bool sent : {false, true}) {
    for (const int who : {kBufferRanks, 1}) {  // all ranks, or only the second
      SCOPED_TRACE(std::string(sent ? "sent, " : "not sent, ") + std::to_string(who));
      ::testing::internal::CaptureStderr();
      fuse_ranks("thread", kBufferRanks, [&](const Group& group) {
        torch::nn::BatchNorm1d model(3);
        auto options = fuse_on(group);
        options.broadcast_buffers = sent;
        DistributedDataParallel ddp(model, options);
        for (int step = 0; step < 3; ++step) {
          if (step == 1 && (who == kBufferRanks || group->rank() == who)) {
            model->running_mean.set_(torch::full({3}, 7.0F));
          }
          ddp(torch::linspace(-1, group->rank(), 12).view({4, 3})).square().sum().backward();
        }
      });
      const std::string log = ::testing::internal::GetCapturedStderr();
      const std::string warning = "buffer \"running_mean\" was written or loaded on rank 1 otherwise than on rank 0";
      EXPECT_EQ(log.find(warning) != std::string::npos, !sent && who != kBufferRanks) << log;
    }
  }
}

// Averages of batch normalisation differ, but every rank has written them equally often.
TEST(BufferDrift, BuffersThatOneRankAloneWritesAreAWarning) {
  struct BufferWrite {
    const char* name;
    bool sent;
    int who;  // kBufferRanks: all ranks
    double value;
  };
  for (const BufferWrite& each : {BufferWrite{"one rank", false, 1, 7}, BufferWrite{"equal values", false, 1, 1},
                                  BufferWrite{"all ranks", false, kBufferRanks, 7}, BufferWrite{"sent", true, 1, 7}}) {
    SCOPED_TRACE(each.name);
    ::testing::internal::CaptureStderr();
    fuse_ranks("thread", kBufferRanks, [&](const Group& group) {
      torch::nn::Sequential model(torch::nn::BatchNorm1d(3));
      torch::Tensor table = model->register_buffer("table", torch::ones({4}));
      auto options = fuse_on(group);
      options.broadcast_buffers = each.sent;
      DistributedDataParallel ddp(model, options);
      for (int step = 0; step < 4; ++step) {
        if (step == 2 && (each.who == kBufferRanks || group->rank() == each.who)) table.index_put_({1}, each.value);
        ddp(torch::linspace(-1, group->rank(), 12).view({4, 3})).square().sum().backward();
      }
    });
    const std::string log = ::testing::internal::GetCapturedStderr();
    const std::string warning = "buffer \"table\" was written or loaded on rank 1 otherwise than on rank 0";
    const bool is_wrong = !each.sent && each.who == 1 && each.value != 1;
    EXPECT_EQ(log.find(warning) != std::string::npos, is_wrong) << log;
    EXPECT_EQ(log.find("running_mean"), std::string::npos) << log;
  }
}

}  // namespace
}  // namespace lockstep
