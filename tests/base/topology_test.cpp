#include "lockstep/base/processor/topology.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <thread>

namespace lockstep {
namespace {

TEST(Topology, CountsOnlyTheCoresOfTheAffinityMask) {
  // In a separate thread, so that its mask ends with it.
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

TEST(Topology, NetworkIsPartOfTheHostIdentity) {
  EXPECT_EQ(network_of_host("boot/net:[1]/pid:[2]"), "boot/net:[1]");
  EXPECT_EQ(network_of_host("boot/net:[1]"), "boot/net:[1]");
  EXPECT_EQ(network_of_host("boot"), "boot");
}

// The identity that the first process of a new PID namespace sees; empty if no namespace can be made.
std::string host_id_in_a_pid_namespace() {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) return "";
  const pid_t outer = ::fork();
  if (outer == 0) {
    if (::unshare(CLONE_NEWPID) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) ::_exit(0);
    const pid_t inner = ::fork();
    if (inner == 0) {
      const std::string text = host_id();
      ::_exit(::write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : 1);
    }
    ::waitpid(inner, nullptr, 0);
    ::_exit(0);
  }
  ::close(ends[1]);
  std::array<char, 512> text{};
  const ssize_t got = ::read(ends[0], text.data(), text.size());
  ::close(ends[0]);
  ::waitpid(outer, nullptr, 0);
  return std::string(text.data(), static_cast<std::size_t>(std::max<ssize_t>(0, got)));
}

TEST(Topology, ContainersWithProcessNumbersOfTheirOwnAreHosts) {
  const std::string inside = host_id_in_a_pid_namespace();
  if (inside.empty()) GTEST_SKIP() << "this process may not make a PID namespace (it takes CAP_SYS_ADMIN)";
  EXPECT_NE(inside, host_id());
  EXPECT_EQ(network_of_host(inside), network_of_host(host_id()));
}

}  // namespace
}  // namespace lockstep
