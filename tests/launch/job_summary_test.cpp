#include "lockstep/launch/job_summary.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace lockstep {
namespace {

LaunchPlan plan_of_ranks(int ranks) {
  LaunchPlan plan;
  plan.local_ranks = ranks;
  plan.affinity = CpuAffinity::Auto;
  return plan;
}

Agreement one_node(int ranks) {
  Agreement agreement;
  agreement.world_size = ranks;
  return agreement;
}

NodeCores eight_cores() { return {{0, 1, 2, 3, 4, 5, 6, 7}, 8, 8}; }

class JobSummary : public ::testing::Test {
 protected:
  void SetUp() override {
    ::unsetenv("ACCELERATE_MIXED_PRECISION");
    ::unsetenv("LOCKSTEP_INTER_HOST_ENGINE");
  }
};

TEST_F(JobSummary, SaysWhatARankComputesWith) {
  EXPECT_EQ(summary_of(plan_of_ranks(4), one_node(4), eight_cores(), ""),
            "4 ranks on this host; each computes with 2 threads, on 2 cores of its own; they exchange through shared "
            "memory, unless the program chooses another engine");
  EXPECT_EQ(summary_of(plan_of_ranks(1), one_node(1), {{0, 1}, 2, 1}, "3"),
            "1 rank on this host; it computes with OMP_NUM_THREADS=3 threads, as you set it, on any of 2 cores");
}

TEST_F(JobSummary, SaysWhichPartOfAJobThisHostHas) {
  LaunchPlan plan = plan_of_ranks(8);
  plan.max_restarts = 3;
  Agreement agreement;
  agreement.nodes = 2;
  agreement.node_rank = 1;
  agreement.first_rank = 8;
  agreement.world_size = 16;
  ::setenv("ACCELERATE_MIXED_PRECISION", "bf16", 1);
  EXPECT_EQ(summary_of(plan, agreement, eight_cores(), ""),
            "ranks 8 to 15 of 16 on this host, node 1 of 2; each computes with 1 thread, on any of 8 cores; between "
            "hosts they exchange through tcp, inside a host through shared memory, unless the program chooses another "
            "engine; mixed precision: bf16; after a failure up to 3 restarts");
}

}  // namespace
}  // namespace lockstep
