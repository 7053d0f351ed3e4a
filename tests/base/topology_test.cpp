#include "lockstep/base/topology.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace lockstep {
namespace {

TEST(Topology, CountsOnlyTheCoresOfTheAffinityMask) {
  // In a thread of its own: its mask ends with it.
  std::thread([] {
    const int first = affinity_cores().front();
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
    EXPECT_EQ(affinity_cores(), std::vector<int>{first});
    EXPECT_EQ(available_cores(), 1);
  }).join();
}

TEST(Topology, HostIdentityIsStable) {
  EXPECT_FALSE(host_name().empty());
  EXPECT_EQ(host_id(), host_id());
  EXPECT_GT(host_id().size(), 10u);
}

}  // namespace
}  // namespace lockstep
