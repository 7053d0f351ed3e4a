// A rank that is paused for longer than its heartbeat, by a debugger or with its virtual machine, is not dead.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/comm/factory.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class Paused : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Engines, Paused, ::testing::Values("shm", "gloo"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(Paused, WhileTheGroupComesUp) {
  const std::string engine = GetParam();
  bool is_there = false;
  for (const Engine& each : available_engines()) is_there = is_there || each.name == engine;
  if (!is_there) GTEST_SKIP() << engine << " is not in this build";
  RanksOptions options;
  options.heartbeat_timeout = milliseconds(2500);
  run_ranks_as_processes(
      2,
      [&](const Membership& membership) {
        std::thread waker;
        if (membership.rank == 1) ::raise(SIGSTOP);
        if (membership.rank == 0) {
          const Deadline end = Deadline::after(seconds(30));
          while (membership.store->lost_ranks().empty() && !end.passed()) {
            std::this_thread::sleep_for(milliseconds(10));
          }
          EXPECT_FALSE(membership.store->lost_ranks().empty());
          waker = std::thread([&] {
            std::this_thread::sleep_for(milliseconds(800));  // longer than between two looks of who waits
            ::kill(membership.peers[1].pid, SIGCONT);
          });
        }
        std::unique_ptr<Communicator> group;
        EXPECT_NO_THROW(group = make_communicator(engine, membership));
        if (waker.joinable()) waker.join();
        if (group) group->barrier();
      },
      options);
}

}  // namespace
}  // namespace lockstep
