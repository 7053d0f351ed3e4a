// Engines over TCP between separate hosts: the chosen interface, and the error if hosts cannot reach each other.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "lockstep/comm/factory.h"
#include "tests/comm/meeting.h"
#include "tests/support/ranks.h"
#include "tools/hosts/network_hosts.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

class MeshOnHosts : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (const auto reason = NetworkHosts::why_not()) GTEST_SKIP() << *reason;
  }

  // Ranks 0, 1, ... on the hosts in turn.
  static RanksOptions on(const NetworkHosts& hosts, const std::function<void(int host)>& more = {}) {
    RanksOptions options;
    options.prepare = [&hosts, more](int rank) {
      const int host = rank % hosts.count();
      hosts.enter(host);
      ::setenv("MASTER_ADDR", hosts.address(0).c_str(), 1);
      if (more) more(host);
    };
    return options;
  }
};

std::vector<std::string> engines_over_tcp() {
  std::vector<std::string> engines;
  for (const Engine& engine : available_engines()) {
    if (engine.name == std::string("tcp") || engine.name == std::string("gloo")) engines.emplace_back(engine.name);
  }
  return engines;
}
INSTANTIATE_TEST_SUITE_P(Engines, MeshOnHosts, ::testing::ValuesIn(engines_over_tcp()),
                         [](const auto& test) { return test.param; });

void sum_up(Communicator& group) {
  for (const std::int64_t count : {1, 1000, 3000001}) {
    at::Tensor tensor = at::full({count}, group.rank() + 1, at::kFloat);
    group.all_reduce(tensor);
    const int size = group.world_size();
    EXPECT_TRUE(tensor.eq(size * (size + 1) / 2).all().item<bool>()) << count;
  }
}

TEST_P(MeshOnHosts, TakesTheRouteToTheMaster) {
  const NetworkHosts hosts(3, "1gbit");
  run_ranks_as_processes(
      3,
      [&](const Membership& membership) {
        EXPECT_FALSE(membership.on_one_host());
        EXPECT_EQ(membership.peers[2].host, "host-c");
        sum_up(*make_communicator(GetParam(), membership));
      },
      on(hosts));
}

TEST_P(MeshOnHosts, NamesThoseThatAnInterfaceDoesNotReach) {
  const NetworkHosts hosts(2, "1gbit");
  const auto ends = ranks_as_processes(
      4, [&](const Membership& membership) { make_communicator(GetParam(), membership); }, on(hosts, [](int host) {
        if (host == 1) ::setenv("GLOO_SOCKET_IFNAME", "lo", 1);
      }));
  for (const RankOutcome& end : ends) {
    EXPECT_TRUE(end.failed);
    EXPECT_FALSE(end.timed_out) << end.text;
    EXPECT_NE(end.text.find("rank 0 on host-a"), std::string::npos) << end.text;
    EXPECT_NE(end.text.find("cannot connect to rank 1 on host-b"), std::string::npos) << end.text;
    EXPECT_NE(end.text.find(" at tcp:127.0.0.1:"), std::string::npos) << end.text;
    EXPECT_NE(end.text.find("refused"), std::string::npos) << end.text;
    EXPECT_NE(end.text.find("GLOO_SOCKET_IFNAME"), std::string::npos) << end.text;
  }
}

// Seconds: a host counts as out of reach when its time to answer is over.
TEST_P(MeshOnHosts, NamesThoseThatDoNotAnswer) {
  const NetworkHosts hosts(3, "1gbit");
  hosts.set_link(2, false);
  const auto ends = ranks_as_processes(
      3, [&](const Membership& membership) { make_communicator(GetParam(), membership); }, on(hosts));
  for (const RankOutcome& end : ends) {
    EXPECT_TRUE(end.failed);
    const std::size_t first = end.text.find("\n    rank 0 on host-a");
    ASSERT_NE(first, std::string::npos) << end.text;
    const std::string line = end.text.substr(first + 1, end.text.find('\n', first + 1) - first - 1);
    EXPECT_NE(line.find("cannot connect to rank 2 on host-c"), std::string::npos) << end.text;
    EXPECT_NE(line.find(" at tcp:10.77.0.3:"), std::string::npos) << end.text;
  }
}

TEST_P(MeshOnHosts, NamesARankThatIsKilled) {
  const NetworkHosts hosts(2, "1gbit");
  const auto ends = ranks_as_processes(
      3,
      [&](const Membership& membership) {
        const auto group = make_communicator(GetParam(), membership);
        for (int step = 0; step < 6; ++step) {
          if (group->rank() == 1 && step == 3) ::raise(SIGKILL);
          at::Tensor tensor = at::ones({1000});
          group->all_reduce(tensor);
        }
      },
      on(hosts));
  for (const int rank : {0, 2}) {
    const RankOutcome& end = ends[static_cast<std::size_t>(rank)];
    EXPECT_FALSE(end.timed_out) << end.text;
    EXPECT_NE(end.text.find("lost rank 1 on host-b"), std::string::npos) << end.text;
  }
}

TEST_P(MeshOnHosts, NamesTheRanksBehindALinkThatWasCut) {
  const NetworkHosts hosts(2, "1gbit");
  RanksOptions options = on(hosts);
  options.timeout = milliseconds(2000);  // once all ranks are out of the barrier, which must not take as long
  const auto ends = ranks_as_processes(
      2,
      [&](const Membership& membership) {
        const auto group = make_communicator(GetParam(), membership);
        group->barrier();
        // The store is on a Unix socket here, so that both sides can report.
        meet_in_store(*group, "out of the barrier");
        if (group->rank() == 0) hosts.set_link(1, false);
        for (;;) {
          at::Tensor tensor = at::ones({100000});
          group->all_reduce(tensor);
        }
      },
      options);
  for (const RankOutcome& end : ends) {
    EXPECT_TRUE(end.failed);
    EXPECT_TRUE(end.timed_out) << end.text;
    EXPECT_NE(end.text.find("all ranks have arrived; the network is slow or interrupted"), std::string::npos)
        << end.text;
  }
}

}  // namespace
}  // namespace lockstep
