// A program may fork a helper while its group lives: only the child's copies of the group end with the child.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "lockstep/comm/factory.h"
#include "tests/comm/contract.h"

namespace lockstep {
namespace {

bool is_forked_child = false;

}  // namespace

// A forked child lacks its parent's threads, so what these hold looks lost to the leak sanitizer, which asks here.
extern "C" int __lsan_is_turned_off() { return is_forked_child ? 1 : 0; }

namespace {

std::vector<Placement> three_processes() {
  std::vector<Placement> found;
  for (const Placement& placement : placements({3})) {
    if (placement.processes) found.push_back(placement);
  }
  return found;
}

class ForkedRank : public Contract {};
INSTANTIATE_TEST_SUITE_P(Engines, ForkedRank, ::testing::ValuesIn(three_processes()), placement_name);

// The exit status of a child that runs `body`; it has 20 s.
int status_of_child(const std::function<void()>& body) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    is_forked_child = true;
    ::alarm(20);
    body();
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

std::unique_ptr<Communicator>& group_of_the_program() {
  static std::unique_ptr<Communicator> group;  // destroyed by exit()
  return group;
}

// Gives the group everything that it can have: threads, pending waits, memory, messages.
std::shared_ptr<Work> use_all(Communicator& group) {
  const int next = (group.rank() + 1) % group.world_size();
  const int before = (group.rank() + group.world_size() - 1) % group.world_size();
  at::Tensor got = at::empty({10});
  const auto receive = group.irecv(got, before);
  group.isend(ones(10), next)->wait();
  receive->wait();
  group.broadcast_async(ones(1000))->wait();
  group.all_reduce_async(group.allocate({1000}, at::kFloat).fill_(1))->wait();
  return group.irecv(at::empty({1}), before, /*tag=*/7);
}

TEST_P(ForkedRank, ExitsAtOnceAndTheGroupLivesOn) {
  RanksOptions options;
  options.prepare = [](int) { ::setenv("LOCKSTEP_COMMUNICATION_THREAD", "1", 1); };
  each_rank(
      [](Communicator& whole) {
        group_of_the_program() = whole.split(0);
        Communicator& group = *group_of_the_program();
        const auto under_way = use_all(group);
        for (const bool by_exit : {true, false}) {
          const int status = status_of_child([&] {
            if (by_exit) std::exit(0);
            group_of_the_program().reset();
            ::_exit(0);
          });
          EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
          at::Tensor sum = ones(1000);
          group.all_reduce(sum);
          EXPECT_TRUE(sum.eq(group.world_size()).all().item<bool>());
        }
        group.isend(ones(1), (group.rank() + 1) % group.world_size(), /*tag=*/7)->wait();
        under_way->wait();
        group.barrier();
        group_of_the_program().reset();
      },
      options);
}

}  // namespace
}  // namespace lockstep
