// The hierarchical engine between separate hosts, with equal and unequal numbers of ranks.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>

#include "lockstep/base/error.h"
#include "lockstep/comm/factory.h"
#include "tests/comm/contract.h"
#include "tools/hosts/network_hosts.h"

namespace lockstep {
namespace {

class HierarchicalOnHosts : public ::testing::TestWithParam<std::vector<int>> {
 protected:
  void SetUp() override {
    if (const auto reason = NetworkHosts::why_not()) GTEST_SKIP() << *reason;
  }
  int world_size() const { return static_cast<int>(GetParam().size()); }

  RanksOptions on(const NetworkHosts& hosts) const {
    RanksOptions options;
    options.prepare = [&hosts, host_of = GetParam()](int rank) {
      hosts.enter(host_of[static_cast<std::size_t>(rank)]);
      ::setenv("MASTER_ADDR", hosts.address(0).c_str(), 1);
    };
    return options;
  }
};

// Uses enough elements for all stages, and a remainder that does not divide.
void each_collective(Communicator& group, at::ScalarType dtype, ReduceOp op) {
  const std::int64_t count = 70001;
  const int size = group.world_size();
  const int rank = group.rank();
  const std::string what = std::string(to_string(op)) + " of " + at::toString(dtype);
  const at::Tensor reduced = reduced_values(dtype, op, size, count);
  at::Tensor tensor = values_of(dtype, op, rank, count);
  group.all_reduce(tensor, op);
  EXPECT_TRUE(same_bits(tensor, reduced)) << what;
  for (int root = 0; root < size; ++root) {
    tensor = values_of(dtype, op, rank, count);
    group.reduce(tensor, root, op);
    if (rank == root) {
      EXPECT_TRUE(same_bits(tensor, reduced)) << what << " to " << root;
    }
    tensor = values_of(dtype, op, rank, count);
    group.broadcast(tensor, root);
    EXPECT_TRUE(same_bits(tensor, values_of(dtype, op, root, count))) << what << " from " << root;
  }
  at::Tensor shard = at::empty({count}, dtype);
  group.reduce_scatter(shard, values_of(dtype, op, rank, size * count), op);
  const at::Tensor whole = reduced_values(dtype, op, size, size * count);
  EXPECT_TRUE(same_bits(shard, whole.narrow(0, rank * count, count))) << what;
  at::Tensor all = at::empty({size * count}, dtype);
  group.all_gather(all, values_of(dtype, op, rank, count));
  for (int other = 0; other < size; ++other) {
    EXPECT_TRUE(same_bits(all.narrow(0, other * count, count), values_of(dtype, op, other, count))) << what;
  }
}

INSTANTIATE_TEST_SUITE_P(Hosts, HierarchicalOnHosts,
                         ::testing::Values(std::vector<int>{0, 0, 1, 1}, std::vector<int>{0, 0, 0, 1},
                                           std::vector<int>{0, 1, 1, 2}),
                         [](const auto& test) {
                           std::string name = "ranks_on";
                           for (const int host : test.param) name += "_" + std::to_string(host);
                           return name;
                         });

// Seconds: 2.8 MB for each of three sums go over a link of 1 Gbit/s.
TEST_P(HierarchicalOnHosts, IsTheDefaultAndReduces) {
  const NetworkHosts hosts(3, "1gbit");
  run_ranks_as_processes(
      world_size(),
      [](const Membership& membership) {
        const auto group = make_communicator("", membership);
        EXPECT_STREQ(group->engine(), "hierarchical");
        for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Max}) {
          for (const std::int64_t count : {0, 1, 5, 5001, 700003}) {
            at::Tensor tensor = values_of(at::kFloat, op, group->rank(), count);
            group->all_reduce(tensor, op);
            EXPECT_TRUE(same_bits(tensor, reduced_values(at::kFloat, op, group->world_size(), count)))
                << to_string(op) << " of " << count;
          }
        }
        for (const at::ScalarType dtype : all_dtypes()) {
          for (const ReduceOp op : reductions_of(dtype)) each_collective(*group, dtype, op);
        }
      },
      on(hosts));
}

TEST_P(HierarchicalOnHosts, NamesARankThatIsKilledOnAnotherHost) {
  const NetworkHosts hosts(3, "1gbit");
  const int lost = world_size() - 1;
  const auto ends = ranks_as_processes(
      world_size(),
      [&](const Membership& membership) {
        const auto group = make_communicator("", membership);
        for (int step = 0; step < 6; ++step) {
          if (group->rank() == lost && step == 3) ::raise(SIGKILL);
          at::Tensor tensor = at::ones({100000});
          group->all_reduce(tensor);
        }
      },
      on(hosts));
  const std::string name = "rank " + std::to_string(lost) + " on host-" + static_cast<char>('a' + GetParam().back());
  for (int rank = 0; rank < lost; ++rank) {
    const RankOutcome& end = ends[static_cast<std::size_t>(rank)];
    EXPECT_FALSE(end.timed_out) << end.text;
    EXPECT_NE(end.text.find(name), std::string::npos) << end.text;
    EXPECT_NE(end.text.find("all_reduce #3 (sum) of 100000 float"), std::string::npos) << end.text;
  }
}

}  // namespace
}  // namespace lockstep
