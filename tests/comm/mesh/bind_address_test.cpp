#include "lockstep/comm/mesh/bring_up/bind_address.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "lockstep/base/error.h"
#include "lockstep/comm/mesh/bring_up/nccl_interface.h"
#include "lockstep/net/thread_ranks.h"

namespace lockstep {
namespace {

class BindAddress : public ::testing::Test {
 protected:
  void TearDown() override {
    ::unsetenv("LOCKSTEP_GLOO_INTERFACE");
    ::unsetenv("GLOO_SOCKET_IFNAME");
    ::unsetenv("MASTER_ADDR");
    ::unsetenv("NCCL_SOCKET_IFNAME");
  }
  // Two ranks, as if on two hosts.
  std::vector<Membership> two_hosts() {
    std::vector<Membership> members = thread_memberships(2, std::chrono::seconds(30));
    for (Membership& member : members) {
      member.peers[1].host_id = "another host";
      member.peers[1].host = "198.51.100.7";  // from the range for documentation
    }
    return members;
  }
  const Deadline deadline_ = Deadline::after(std::chrono::seconds(30));
};

TEST_F(BindAddress, IsLoopbackOnOneHost) {
  EXPECT_EQ(mesh_bind_address(thread_memberships(2, std::chrono::seconds(30))[0], "tcp", deadline_), "127.0.0.1");
}

TEST_F(BindAddress, IsThatOfTheInterfaceNamed) {
  ::setenv("GLOO_SOCKET_IFNAME", "no-such-interface", 1);
  ::setenv("LOCKSTEP_GLOO_INTERFACE", "lo", 1);  // takes precedence
  EXPECT_EQ(mesh_bind_address(two_hosts()[1], "tcp", deadline_), "127.0.0.1");
}

TEST_F(BindAddress, ListsTheInterfacesWhereTheNamedOneDoesNotExist) {
  ::setenv("GLOO_SOCKET_IFNAME", "no-such-interface", 1);
  try {
    mesh_bind_address(two_hosts()[0], "tcp", deadline_);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.happened().find("no-such-interface"), std::string::npos) << error.what();
    EXPECT_NE(error.happened().find("lo"), std::string::npos) << error.what();
  }
}

// The variable is set exactly between hosts, to the job's interface, and never over a choice of the user's.
TEST_F(BindAddress, IsWhereNcclConnectsUnlessToldOtherwise) {
  name_interface_for_nccl(thread_memberships(2, std::chrono::seconds(30))[0], deadline_);
  EXPECT_EQ(std::getenv("NCCL_SOCKET_IFNAME"), nullptr);
  ::setenv("GLOO_SOCKET_IFNAME", "no-such-interface", 1);
  name_interface_for_nccl(two_hosts()[1], deadline_);
  EXPECT_EQ(std::getenv("NCCL_SOCKET_IFNAME"), nullptr) << "NCCL looks for one by itself";
  ::setenv("LOCKSTEP_GLOO_INTERFACE", "lo", 1);
  name_interface_for_nccl(two_hosts()[1], deadline_);
  EXPECT_STREQ(std::getenv("NCCL_SOCKET_IFNAME"), "=lo");
  ::setenv("NCCL_SOCKET_IFNAME", "ib0", 1);
  name_interface_for_nccl(two_hosts()[1], deadline_);
  EXPECT_STREQ(std::getenv("NCCL_SOCKET_IFNAME"), "ib0");
}

TEST_F(BindAddress, NeverGuessesLoopbackBetweenHosts) {
  ::setenv("MASTER_ADDR", "localhost", 1);
  std::vector<Membership> members = two_hosts();
  members[0].peers[1].host = "localhost";
  members[1].peers[0].host = "localhost";
  members[1].store->set("mesh/route/1", "");
  EXPECT_THROW(mesh_bind_address(members[0], "tcp", deadline_), Error);
}

}  // namespace
}  // namespace lockstep
