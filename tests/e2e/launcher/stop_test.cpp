// Tests that `lockstep run` leaves no process behind when it is asked to end, or killed.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/e2e/launch.h"

namespace lockstep {
namespace {

// Each rank starts a child, which starts another one in a separate session; all print their names. Then the rank does
// `last`.
Words family(const std::string& last = "wait") {
  return shell("echo rank=$$; sh -c 'echo child=$$; setsid sh -c \"echo far=\\$\\$; exec sleep 300\" & wait' & " +
               last);
}

void expect_family_gone(const RunningProgram& program, std::size_t ranks) {
  for (const char* name : {"rank", "child", "far"}) {
    const std::vector<pid_t> pids = pids_after(program.out(), name);
    EXPECT_EQ(pids.size(), ranks) << name << " in " << program.out();
    for (const pid_t pid : pids) EXPECT_TRUE(wait_until_gone(pid, soon())) << name << " " << pid << " lives";
  }
}

void wait_for_family(RunningProgram& program, std::size_t ranks) {
  const Deadline deadline = soon();
  while (pids_after(program.out(), "far").size() < ranks || pids_after(program.out(), "child").size() < ranks ||
         pids_after(program.out(), "rank").size() < ranks) {
    ASSERT_TRUE(program.wait_for_more(deadline)) << program.out() << program.err();
  }
}

struct Stop {
  const char* name;
  int signal;
  int code;  // -1: ended by the signal
  friend std::ostream& operator<<(std::ostream& out, const Stop& c) { return out << c.name; }
};
class Stops : public ::testing::TestWithParam<Stop> {};

TEST_P(Stops, LeaveNobodyBehind) {
  RunningProgram program(launch({"--nproc-per-node=2"}, family()));
  wait_for_family(program, 2);
  program.send(GetParam().signal);
  const ProgramEnd end = program.wait(soon());
  EXPECT_EQ(end.code, GetParam().code) << end.err;
  expect_family_gone(program, 2);
}

INSTANTIATE_TEST_SUITE_P(Table, Stops,
                         ::testing::Values(Stop{"interrupt", SIGINT, 128 + SIGINT},
                                           Stop{"terminate", SIGTERM, 128 + SIGTERM},
                                           Stop{"hang_up", SIGHUP, 128 + SIGHUP}, Stop{"kill", SIGKILL, -1}),
                         [](const auto& test) { return test.param.name; });

TEST(Stop, FailureLeavesNobodyBehind) {
  const TemporaryFolder folder;
  const std::string fifo = folder / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  RunningProgram program(
      launch({"--nproc-per-node=2"}, family("[ $RANK = 1 ] && { read word < " + fifo + "; exit 3; }; wait")));
  wait_for_family(program, 2);
  std::ofstream(fifo) << "now" << std::endl;
  const ProgramEnd end = program.wait(soon());
  EXPECT_EQ(end.code, 1);
  EXPECT_TRUE(has(end.err, "failed first: exit code 3")) << end.err;
  expect_family_gone(program, 2);
}

// Saving takes longer than the grace period of ranks after a failure.
TEST(Stop, SignalIsForwardedSoThatRanksCanSave) {
  RunningProgram program(
      launch({"--nproc-per-node=2"},
             shell("trap 'sleep 1.3; echo saved; exit 0' INT; echo ready; while :; do sleep 0.05; done")));
  const Deadline deadline = soon();
  while (sorted_lines(program.out()).size() < 2) ASSERT_TRUE(program.wait_for_more(deadline));
  program.send(SIGINT);
  const ProgramEnd end = program.wait(soon());
  EXPECT_EQ(end.code, 128 + SIGINT);
  EXPECT_EQ(sorted_lines(end.out), (Words{"ready", "ready", "saved", "saved"}));
}

TEST(Stop, SecondSignalKills) {
  RunningProgram program(launch({}, shell("trap '' INT; echo ready; while :; do sleep 0.05; done")));
  ASSERT_TRUE(program.wait_for("ready\n", soon()));
  program.send(SIGINT);
  program.send(SIGTERM);
  EXPECT_EQ(program.wait(soon()).code, 128 + SIGINT);
}

TEST(Stop, WhatRanksLeaveRunningEndsWithTheJob) {
  const TemporaryFolder folder;
  const std::string started = folder / "started";  // a pipe: the rank ends after the other session has begun
  const ProgramEnd end = run({}, shell("mkfifo " + started + "; setsid sh -c 'echo far=$$; echo > " + started +
                                       "; exec sleep 300' & read word < " + started));
  EXPECT_EQ(end.code, 0) << end.err;
  const std::vector<pid_t> pids = pids_after(end.out, "far");
  ASSERT_EQ(pids.size(), 1U) << end.out;
  EXPECT_TRUE(wait_until_gone(pids[0], soon()));
}

TEST(Stop, NothingOfTheJobStaysInTheRuntimeFolder) {
  const TemporaryFolder folder;
  for (const int signal : {0, SIGKILL}) {
    RunningProgram program(launch({}, shell("echo ready=$$; " + std::string(signal == 0 ? ":" : "exec sleep 300"))),
                           {{"XDG_RUNTIME_DIR", folder.path()}});
    ASSERT_TRUE(program.wait_for("ready=", soon()));
    if (signal != 0) program.send(signal);
    program.wait(soon());
    // After a kill the guard removes the folder, shortly after the ranks' end.
    const Deadline deadline = soon();
    while (!fs::is_empty(folder / "lockstep") && !deadline.passed()) ::usleep(1000);
    EXPECT_TRUE(fs::is_empty(folder / "lockstep"));
  }
}

}  // namespace
}  // namespace lockstep
