#include "tools/hosts/network_hosts.h"

#include <signal.h>

#include "tests/e2e/launch.h"

namespace lockstep {
namespace {

class EndedHostMaker : public ::testing::TestWithParam<int> {};

TEST_P(EndedHostMaker, LeavesNeitherNamespacesNorProcesses) {
  if (const auto reason = NetworkHosts::why_not()) GTEST_SKIP() << *reason;
  RunningProgram maker({kBin + "/host_maker"});
  const std::string prefix = "lockstep-hosts-" + std::to_string(maker.pid()) + "-";
  const auto left = [&] {
    Words names;
    for (const auto& entry : fs::directory_iterator("/run/netns")) {
      if (entry.path().filename().string().rfind(prefix, 0) == 0) names.push_back(entry.path().filename());
    }
    return names;
  };
  ASSERT_TRUE(maker.wait_for("\n", soon())) << maker.err();
  EXPECT_EQ(left().size(), 3u) << "two hosts and a bridge";
  const pid_t on_host = std::stoi(maker.out());
  maker.send(GetParam());
  // Both streams end when the guard has ended, too.
  EXPECT_EQ(maker.wait(soon()).signal, GetParam());
  EXPECT_EQ(left(), Words());
  EXPECT_TRUE(wait_until_gone(on_host, soon()));
}

INSTANTIATE_TEST_SUITE_P(Signals, EndedHostMaker, ::testing::Values(SIGINT, SIGTERM, SIGKILL),
                         [](const auto& test) { return std::string(::sigabbrev_np(test.param)); });

}  // namespace
}  // namespace lockstep
