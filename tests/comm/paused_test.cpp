// A rank that is paused for longer than its heartbeat, by a debugger or with its virtual machine, is not dead.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "lockstep/comm/factory.h"
#include "tests/support/ranks.h"
#include "tests/support/ranks/paused_rank.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

class Paused : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Engines, Paused, ::testing::Values("shm", "tcp", "gloo"),
                         [](const auto& test) { return std::string(test.param); });

// Seconds: a rank stands still for longer than the others wait before they look at it.
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
        PausedRank paused(membership);
        paused.pause();
        std::unique_ptr<Communicator> group;
        EXPECT_NO_THROW(group = make_communicator(engine, paused.membership()));
        if (group) group->barrier();
      },
      options);
}

}  // namespace
}  // namespace lockstep
