// Writes that leave no trace in a tensor's version: which replicas copy weights and buffers after them.
#include "lockstep/replicas/replication/unseen_writes.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "lockstep/replicas/data_parallel.h"
#include "tests/replicas/replica_fixtures.h"

namespace lockstep {
namespace {

using replica_tests::cpu_devices;

// A forward: whether it trains, on how many of three replicas, and which of these copy everything ("12").
struct UnseenForward {
  bool trains;
  std::size_t replicas;
  std::string copies;
};

std::string copies_in(UnseenWrites& writes, const UnseenForward& forward) {
  writes.begin(forward.trains);
  std::string copies;
  for (std::size_t replica = 1; replica < forward.replicas; ++replica) {
    if (writes.take(replica)) copies += std::to_string(replica);
  }
  return copies;
}

TEST(UnseenWrites, AreTakenByEachReplicaUntilTheForwardAfterTraining) {
  const std::vector<std::vector<UnseenForward>> histories = {
      {{false, 3, ""}, {false, 3, ""}},                                      // inference alone: versions count
      {{true, 3, "12"}, {true, 3, "12"}, {false, 3, "12"}, {false, 3, ""}},  // one more after the last step
      {{false, 3, ""}, {true, 1, ""}, {false, 3, "12"}, {false, 3, ""}},     // replica 0 alone trained
      {{true, 3, "12"}, {true, 2, "1"}, {false, 2, "1"}, {false, 3, "2"}},   // a smaller last batch
      {{true, 2, "1"}, {false, 1, ""}, {false, 1, ""}, {false, 3, "12"}},
  };
  for (std::size_t i = 0; i < histories.size(); ++i) {
    UnseenWrites writes(3);
    for (std::size_t k = 0; k < histories[i].size(); ++k) {
      EXPECT_EQ(copies_in(writes, histories[i][k]), histories[i][k].copies) << "history " << i << ", forward " << k;
    }
  }
}

// The module's averages move while replica 0 alone computes; its kernel does not count that as a write.
TEST(UnseenWrites, OfABatchForOneReplicaReachTheOthersBuffers) {
  torch::manual_seed(3);
  torch::nn::BatchNorm1d norm(2);
  DataParallel dp(norm, cpu_devices(2));
  const at::Tensor rows = torch::randn({2, 2, 5});
  norm->eval();
  dp(rows);
  norm->train();
  dp(rows.narrow(0, 0, 1) + 7);
  norm->eval();
  EXPECT_TRUE(dp(rows).allclose(norm->forward(rows)));
}

}  // namespace
}  // namespace lockstep
