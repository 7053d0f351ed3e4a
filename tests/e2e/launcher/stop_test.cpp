// Tests that `lockstep run` leaves no process behind when it is asked to end, or killed.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "lockstep/base/signals.h"
#include "lockstep/launch/process/process_table.h"
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

// As coreutils' timeout does: to the command, and to its process group.
TEST(Stop, ASignalThatComesTwiceAtOnceIsOneRequest) {
  RunningProgram program(
      launch({}, shell("trap 'sleep 0.3; echo saved; exit 0' TERM; echo ready; while :; do sleep 0.05; done")));
  ASSERT_TRUE(program.wait_for("ready\n", soon()));
  program.send(SIGTERM);
  program.send(SIGTERM);
  const ProgramEnd end = program.wait(soon());
  EXPECT_EQ(end.code, 128 + SIGTERM);
  EXPECT_TRUE(has(end.out, "saved")) << end.err;
}

// Ctrl-C and the end of the session, for example: a rank that saves gets both, and its time.
TEST(Stop, SignalsOfTwoKindsAtOnceAreOneRequest) {
  for (const int first : {SIGINT, SIGHUP}) {
    RunningProgram program(launch({}, shell("trap 'sleep 0.3; echo saved; exit 0' INT HUP; trap '' TERM; echo ready; "
                                            "while :; do sleep 0.05; done")));
    ASSERT_TRUE(program.wait_for("ready\n", soon()));
    program.send(first);
    program.send(SIGTERM);
    const ProgramEnd end = program.wait(soon());
    EXPECT_EQ(end.code, 128 + first);
    EXPECT_TRUE(has(end.out, "saved")) << end.err;
  }
}

// Batch systems warn a job by a signal of the user's choice: the ranks decide what it means.
class Warned : public ::testing::TestWithParam<int> {
 protected:
  // Two ranks that do `handler` when the warning arrives.
  Words job(const std::string& handler, const Words& flags = {}) const {
    Words all{"--nproc-per-node=2"};
    all.insert(all.end(), flags.begin(), flags.end());
    const std::string trap = handler.empty() ? "" : "trap '" + handler + "' " + std::to_string(GetParam()) + "; ";
    return launch(all, shell(trap + "echo ready; while :; do sleep 0.05; done"));
  }
  static void wait_until_ready(RunningProgram& program) {
    const Deadline deadline = soon();
    while (sorted_lines(program.out()).size() < 2) ASSERT_TRUE(program.wait_for_more(deadline)) << program.err();
  }
  ProgramEnd end_of(const Words& words) const {
    RunningProgram program(words);
    wait_until_ready(program);
    program.send(GetParam());
    return program.wait(soon());
  }
};

// Saving takes longer than the ranks would get after a failure. The job's time is over: no restart.
TEST_P(Warned, RanksSaveAndTheLauncherEndsWithTheirCode) {
  const std::string saving = GetParam() == SIGUSR1 ? "sleep 1.3; " : "";
  const ProgramEnd end = end_of(job(saving + "echo saved; exit 143", {"--max-restarts=3"}));
  EXPECT_EQ(end.code, 143) << end.err;
  EXPECT_EQ(sorted_lines(end.out), (Words{"ready", "ready", "saved", "saved"}));
  EXPECT_TRUE(has(end.err, signal_name(GetParam()) + " arrived, a batch system's warning")) << end.err;
  EXPECT_TRUE(has(end.err, "stopped in order upon " + signal_name(GetParam()))) << end.err;
  EXPECT_TRUE(has(end.err, "nothing has failed")) << end.err;
}

INSTANTIATE_TEST_SUITE_P(Signals, Warned, ::testing::ValuesIn(kWarningSignals),
                         [](const auto& test) { return signal_name(test.param); });

class WarnedBySigusr1 : public Warned {};

TEST_P(WarnedBySigusr1, AProgramMayContinue) {
  const ProgramEnd end = end_of(job("echo noted; exit 0"));
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_EQ(sorted_lines(end.out), (Words{"noted", "noted", "ready", "ready"}));
}

// Seconds: the rank might come to handle it.
TEST_P(WarnedBySigusr1, AProgramThatDoesNotHandleItFailsAndIsToldSo) {
  const ProgramEnd end = end_of(job("", {"--max-restarts=3"}));
  EXPECT_EQ(end.code, 1);
  EXPECT_TRUE(has(end.err, "failed first: killed by SIGUSR1")) << end.err;
  EXPECT_TRUE(has(end.err, "which the program does not handle")) << end.err;
  EXPECT_EQ(sorted_lines(end.out), (Words{"ready", "ready"}));  // no restart
}

// As Slurm signals a step: the launcher, its ranks and its helpers.
TEST_P(WarnedBySigusr1, AllProcessesOfTheJobMayGetItAtOnce) {
  RunningProgram program(job("sleep 0.1; echo saved; exit 143", {"--max-restarts=1", "--warm-spares"}));
  wait_until_ready(program);
  std::vector<pid_t> all = descendants(program.pid(), {});
  all.push_back(program.pid());
  for (int i = 0; i < 3; ++i) {
    for (const pid_t pid : all) ::kill(pid, GetParam());
  }
  const ProgramEnd end = program.wait(soon());
  EXPECT_EQ(end.code, 143) << end.err;
  EXPECT_TRUE(has(end.out, "saved\n")) << end.out;
}

// The signal arrives while the rank is still being loaded.
TEST_P(WarnedBySigusr1, ARankThatDoesNotHandleItYetGetsItLater) {
  const TemporaryFolder folder;
  const std::string fifo = folder / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  RunningProgram program(launch({}, shell("echo started; read word < " + fifo +
                                          "; trap 'echo saved; exit 143' USR1; while :; do sleep 0.05; done")));
  ASSERT_TRUE(program.wait_for("started\n", soon()));
  program.send(GetParam());
  ASSERT_TRUE(program.wait_for("arrived, a batch system's warning", soon()));
  std::ofstream(fifo) << "now" << std::endl;
  const ProgramEnd end = program.wait(soon());
  EXPECT_EQ(end.code, 143) << end.err;
  EXPECT_TRUE(has(end.out, "saved\n")) << end.err;
}

INSTANTIATE_TEST_SUITE_P(Signals, WarnedBySigusr1, ::testing::Values(SIGUSR1));

// The end of the job's time, after the warning, asks once more.
TEST(Stop, SigtermAfterAWarningIsTheFirstRequest) {
  RunningProgram program(launch({}, shell("trap 'echo warned' USR1; trap 'sleep 0.3; echo saved; exit 143' TERM; "
                                          "echo ready; while :; do sleep 0.05; done")));
  ASSERT_TRUE(program.wait_for("ready\n", soon()));
  program.send(SIGUSR1);
  ASSERT_TRUE(program.wait_for("warned\n", soon()));
  program.send(SIGTERM);
  const ProgramEnd end = program.wait(soon());
  EXPECT_EQ(end.code, 143) << end.err;
  EXPECT_TRUE(has(end.out, "saved\n")) << end.out;
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

// The launcher's guard.
pid_t guard_of(const RunningProgram& program) {
  for (const pid_t pid : descendants(program.pid(), {})) {
    if (content("/proc/" + std::to_string(pid) + "/comm") == "lockstep-guard\n") return pid;
  }
  return -1;
}

// Somebody kills the guard, or stops it, and then the launcher.
class DisturbedGuard : public ::testing::TestWithParam<int> {};

TEST_P(DisturbedGuard, NothingOfTheJobOutlivesAKilledLauncher) {
  const TemporaryFolder folder;
  RunningProgram program(launch({"--nproc-per-node", "2"}, family()), {{"XDG_RUNTIME_DIR", folder.path()}});
  wait_for_family(program, 2);
  const pid_t guard = guard_of(program);
  ASSERT_GT(guard, 0);
  ::kill(guard, GetParam());
  if (GetParam() == SIGKILL) {
    ASSERT_TRUE(program.wait_for("the guard process " + std::to_string(guard) + " of this job ended: ", soon()));
    EXPECT_NE(guard_of(program), guard);
  }
  program.send(SIGKILL);
  program.wait(soon());
  expect_family_gone(program, 2);
  const Deadline deadline = soon();
  while (!fs::is_empty(folder / "lockstep") && !deadline.passed()) ::usleep(1000);
  EXPECT_TRUE(fs::is_empty(folder / "lockstep"));
}

TEST_P(DisturbedGuard, TheJobEndsAsEver) {
  RunningProgram program(launch({}, shell("echo ready; exec sleep 300")));
  ASSERT_TRUE(program.wait_for("ready", soon()));
  const pid_t guard = guard_of(program);
  ASSERT_GT(guard, 0);
  ::kill(guard, GetParam());
  program.send(SIGTERM);
  EXPECT_EQ(program.wait(soon()).code, 128 + SIGTERM) << program.err();
}

INSTANTIATE_TEST_SUITE_P(Signals, DisturbedGuard, ::testing::Values(SIGKILL, SIGSTOP),
                         [](const auto& test) { return test.param == SIGKILL ? "killed" : "stopped"; });

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
