// Ranks in containers that share a machine and its network but number their processes separately, as with docker run
// --network=host, or in the containers of a pod.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "lockstep/comm/communicator.h"
#include "lockstep/comm/factory.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

// Only a process's children enter a PID namespace that it made: the rank continues in a child, and this process waits.
void enter_container(int) {
  if (::unshare(CLONE_NEWPID) != 0) ::_exit(3);
  const pid_t rank = ::fork();
  if (rank == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    return;
  }
  int status = 0;
  ::waitpid(rank, &status, 0);
  ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 4);
}

bool may_make_containers() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(::unshare(CLONE_NEWPID) == 0 ? 0 : 1);
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(Containers, WithOneNetworkAreServedByTheDefaultEngine) {
  if (!may_make_containers()) GTEST_SKIP() << "this process may not make PID namespaces (it takes CAP_SYS_ADMIN)";
  RanksOptions options;
  options.prepare = enter_container;
  run_ranks_as_processes(
      2,
      [](const Membership& membership) {
        EXPECT_EQ(membership.peers[0].pid, membership.peers[1].pid);  // each is process 1 of its container
        EXPECT_FALSE(membership.on_one_host());
        EXPECT_TRUE(membership.on_one_network());
        const auto group = make_communicator("", membership);
        EXPECT_EQ(group->engine(), std::string("tcp"));
        at::Tensor tensor = at::full({1000}, group->rank() + 1, at::kFloat);
        group->all_reduce(tensor);
        EXPECT_TRUE(tensor.eq(3).all().item<bool>());
      },
      options);
}

}  // namespace
}  // namespace lockstep
