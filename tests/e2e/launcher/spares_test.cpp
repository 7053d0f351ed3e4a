// Tests `lockstep run --warm-spares`: preloaded processes take over when ranks are restarted.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <string>

#include "lockstep/launch/ranks/spare_message.h"
#include "tests/e2e/launch.h"

namespace lockstep {
namespace {

const Changes kTold{{"LOCKSTEP_LOG_LEVEL", "info"}};

class Spares : public ::testing::Test {
 protected:
  static Words job(const Words& more, const Words& program) {
    Words flags{"--warm-spares", "--max-restarts=3"};
    flags.insert(flags.end(), more.begin(), more.end());
    return launch(flags, program);
  }
  // The waiting spares: children of the launcher that their environment marks as such.
  static std::vector<pid_t> waiting(const RunningProgram& launcher) {
    std::vector<pid_t> found;
    std::istringstream pids(run_program({"pgrep", "-P", std::to_string(launcher.pid())}).out);
    for (pid_t pid = 0; pids >> pid;) {
      if (has(content("/proc/" + std::to_string(pid) + "/environ"), "LOCKSTEP_SPARE=")) found.push_back(pid);
    }
    return found;
  }
  // The launcher's child that has loaded LibTorch and is not a spare.
  static pid_t rank_of(const RunningProgram& launcher, const std::vector<pid_t>& spares) {
    std::istringstream pids(run_program({"pgrep", "-P", std::to_string(launcher.pid())}).out);
    for (pid_t pid = 0; pids >> pid;) {
      const bool is_spare = std::find(spares.begin(), spares.end(), pid) != spares.end();
      if (!is_spare && has(content("/proc/" + std::to_string(pid) + "/maps"), "libtorch")) return pid;
    }
    throw std::runtime_error("the launcher has no rank: " + launcher.err());
  }
  // The pids that ranks print: they may arrive later than what the launcher prints.
  static std::vector<pid_t> await_pids(RunningProgram& run, std::size_t count) {
    while (pids_after(run.out(), "pid").size() < count && run.wait_for_more(soon())) {
    }
    return pids_after(run.out(), "pid");
  }
  static int count_of(const std::string& text, const std::string& part) {
    int count = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
    return count;
  }
};

TEST_F(Spares, BecomeTheRanksOfTheNextStart) {
  RunningProgram run(
      job({"--nproc-per-node=2", "--tee=3"}, shell("echo r=$RANK n=$TORCHELASTIC_RESTART_COUNT p=$LD_PRELOAD; "
                                                   "echo pid=$$; echo error $RANK >&2; exec sleep 300")),
      kTold);
  ASSERT_TRUE(run.wait_for("warm spares are loaded: 2", soon())) << run.err();
  const std::vector<pid_t> spares = waiting(run);
  ASSERT_EQ(spares.size(), 2U);
  EXPECT_FALSE(has(run.out(), "n=1")) << "a spare does nothing";
  const std::vector<pid_t> first = await_pids(run, 2);
  ASSERT_EQ(first.size(), 2U);
  ASSERT_EQ(::kill(first[0], SIGKILL), 0);
  ASSERT_TRUE(run.wait_for("[default0]:r=0 n=1 p=\n", soon())) << run.out() << run.err();
  ASSERT_TRUE(run.wait_for("[default1]:r=1 n=1 p=\n", soon()));
  ASSERT_EQ(await_pids(run, 4).size(), 4U);
  for (const pid_t pid : spares) EXPECT_TRUE(has(run.out(), "pid=" + std::to_string(pid) + "\n")) << "the same process";
  run.send(SIGTERM);
  EXPECT_EQ(run.wait(soon()).code, 128 + SIGTERM);
  EXPECT_TRUE(has(run.err(), "[default1]:error 1\n")) << run.err();
}

// Seconds: a spare loads LibTorch for each of three restarts.
TEST_F(Spares, AreThereAgainForEachRestart) {
  RunningProgram run(job({}, shell("echo n=$TORCHELASTIC_RESTART_COUNT; echo pid=$$; exec sleep 300")), kTold);
  for (int restart = 0; restart < 3; ++restart) {
    ASSERT_TRUE(run.wait_for("n=" + std::to_string(restart) + "\npid=", soon()));
    while (waiting(run).empty()) ASSERT_TRUE(run.wait_for_more(soon()));
    const std::vector<pid_t> ranks = await_pids(run, static_cast<std::size_t>(restart) + 1);
    ASSERT_EQ(ranks.size(), static_cast<std::size_t>(restart) + 1);
    ASSERT_EQ(::kill(ranks.back(), SIGKILL), 0);
  }
  ASSERT_TRUE(run.wait_for("n=3\n", soon()));
  run.send(SIGINT);
  EXPECT_EQ(run.wait(soon()).code, 128 + SIGINT);
}

// All ranks have failed while it loads: the launcher has sent what it becomes, and closed its end.
TEST_F(Spares, AreStartedThoughTheyAreNotLoadedYet) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  UniqueFd launcher(ends[0]);
  const UniqueFd other_end(ends[1]);
  const std::string environment("STARTED=yes\0", 12);
  SpareStart start;
  start.environment_bytes = static_cast<std::uint32_t>(environment.size());
  ASSERT_EQ(::send(launcher.get(), &start, sizeof(start), 0), static_cast<ssize_t>(sizeof(start)));
  ASSERT_EQ(::send(launcher.get(), environment.data(), environment.size(), 0), 12);
  launcher.reset();
  const ProgramEnd end = run_program({"/usr/bin/env"}, {{kSpareVariable, std::to_string(other_end.get())},
                                                        {"LD_PRELOAD", kBin + "/" + kSpareLibrary}});
  EXPECT_EQ(end.code, 0);
  EXPECT_EQ(end.out, "STARTED=yes\n") << "it has ended, and the others would wait for it";
}

// The command becomes the program that has LibTorch, and a spare waits there.
TEST_F(Spares, OfTheCommandHaveLoadedLibTorch) {
  const TemporaryFolder folder;
  const std::string table = folder / "table.csv";
  std::ofstream file(table);
  file << "height,label\n";
  for (int i = 0; i < 64; ++i) file << i % 17 << (i % 17 > 8 ? ",tall\n" : ",short\n");
  file.close();
  RunningProgram run(job({}, {kBin + "/lockstep", "train", "--task", "tabular-classification", "--model", "mlp",
                              "--train-file", table, "--output-dir", folder / "out", "--max-steps", "100000000",
                              "--logging-steps", "1000", "--save-strategy", "no"}),
                     kTold);
  ASSERT_TRUE(run.wait_for("warm spares are loaded: 1", soon())) << run.err();
  const std::vector<pid_t> spares = waiting(run);
  ASSERT_EQ(spares.size(), 1U);
  EXPECT_TRUE(has(content("/proc/" + std::to_string(spares[0]) + "/maps"), "libtorch")) << run.err();
  ASSERT_TRUE(run.wait_for("'loss'", soon())) << run.err();
  ASSERT_EQ(::kill(rank_of(run, spares), SIGKILL), 0);
  while (count_of(run.out(), "Running training") < 2) ASSERT_TRUE(run.wait_for_more(soon())) << run.err();
  run.send(SIGTERM);
  EXPECT_EQ(run.wait(soon()).code, 128 + SIGTERM);
}

TEST_F(Spares, OfASubcommandWithoutLibTorchDoNothingToo) {
  RunningProgram run(job({}, {kBin + "/lockstep", "run", "sh", "-c", "echo pid=$$; exec sleep 300"}), kTold);
  ASSERT_TRUE(run.wait_for("warm spares are loaded: 1", soon())) << run.err();
  const std::vector<pid_t> spares = waiting(run);
  ASSERT_EQ(spares.size(), 1U);
  EXPECT_EQ(run_program({"pgrep", "-P", std::to_string(spares[0])}).out, "") << "it has started its job";
  EXPECT_EQ(await_pids(run, 1).size(), 1U);
}

// Seconds: two spares load LibTorch.
TEST_F(Spares, EndWithTheJob) {
  for (const int signal : {SIGTERM, SIGKILL}) {
    RunningProgram run(job({}, shell("echo pid=$$; exec sleep 300")), kTold);
    ASSERT_TRUE(run.wait_for("warm spares are loaded: 1", soon()));
    const std::vector<pid_t> spares = waiting(run);
    ASSERT_EQ(spares.size(), 1U);
    run.send(signal);
    EXPECT_TRUE(wait_until_gone(spares[0], soon()));
  }
}

TEST_F(Spares, AreFollowedByOthersIfTheyAreKilled) {
  RunningProgram run(job({}, shell("echo n=$TORCHELASTIC_RESTART_COUNT; echo pid=$$; exec sleep 300")), kTold);
  std::set<pid_t> killed;
  for (int i = 0; i < 3; ++i) {
    while (count_of(run.err(), "warm spares are loaded: 1") <= i) ASSERT_TRUE(run.wait_for_more(soon())) << run.err();
    const pid_t spare = waiting(run).at(0);
    EXPECT_TRUE(killed.insert(spare).second);
    ASSERT_EQ(::kill(spare, SIGKILL), 0);
  }
  while (count_of(run.err(), "warm spares are loaded: 1") < 4) ASSERT_TRUE(run.wait_for_more(soon())) << run.err();
  const pid_t spare = waiting(run).at(0);
  ASSERT_EQ(::kill(await_pids(run, 1).at(0), SIGKILL), 0);
  ASSERT_TRUE(run.wait_for("n=1\n", soon())) << run.err();
  EXPECT_EQ(await_pids(run, 2).at(1), spare) << "the last one takes over";
}

// One that waits, and the next one while it is being loaded, of two ranks. Seconds: five spares load LibTorch.
TEST_F(Spares, OfSeveralRanksAreCountedApart) {
  RunningProgram run(job({"--nproc-per-node=2"}, shell("echo pid=$$; exec sleep 300")), kTold);
  ASSERT_TRUE(run.wait_for("warm spares are loaded: 2", soon())) << run.err();
  for (const pid_t spare : waiting(run)) ASSERT_EQ(::kill(spare, SIGKILL), 0);
  ASSERT_TRUE(run.wait_for("the warm spare for local rank 0 ended", soon()));
  ASSERT_TRUE(run.wait_for("the warm spare for local rank 1 ended", soon()));
  std::vector<pid_t> loading;
  while ((loading = waiting(run)).empty()) {
  }
  ASSERT_EQ(::kill(loading.front(), SIGKILL), 0);
  while (count_of(run.err(), "warm spares are loaded: 2") < 2) {
    ASSERT_TRUE(run.wait_for_more(soon())) << run.err();
    ASSERT_FALSE(has(run.err(), "no warm spare")) << run.err();
  }
}

// A program that ends before its main function, as one that lacks a library would, but only where it is a spare.
TEST_F(Spares, AreDoneWithoutWhereTheyEndAtOnce) {
  const TemporaryFolder folder;
  const std::string library = folder / "ends.so";
  std::ofstream(folder / "ends.c") << "#include <stdlib.h>\n#include <unistd.h>\n__attribute__((constructor)) static "
                                      "void end(void) { if (getenv(\"LOCKSTEP_SPARE\")) _exit(3); }\n";
  const ProgramEnd built = run_program({"cc", "-shared", "-fPIC", "-o", library, folder / "ends.c"});
  ASSERT_EQ(built.code, 0) << built.err;
  Changes changes = kTold;
  changes["LD_PRELOAD"] = library;
  RunningProgram run(job({}, shell("echo n=$TORCHELASTIC_RESTART_COUNT; echo pid=$$; exec sleep 300")), changes);
  ASSERT_TRUE(run.wait_for("no warm spare for local rank 0: 2 in a row ended before they were needed", soon()))
      << run.err();
  ASSERT_EQ(::kill(await_pids(run, 1).at(0), SIGKILL), 0);
  EXPECT_TRUE(run.wait_for("n=1\n", soon())) << "started afresh";
}

TEST_F(Spares, AreRefusedWhereTheyCannotBe) {
  const TemporaryFolder folder;
  const std::string script = folder / "train.sh";
  std::ofstream(script) << "#!/bin/sh\nexit 0\n";
  fs::permissions(script, fs::perms::owner_all);
  const ProgramEnd end = run_program(job({}, {script}));
  EXPECT_EQ(end.code, 2);
  EXPECT_TRUE(has(end.err, "--warm-spares with " + script + ", which is not a dynamically linked program")) << end.err;
  const ProgramEnd never = run({"--warm-spares"}, {"true"});
  EXPECT_EQ(never.code, 2);
  EXPECT_TRUE(has(never.err, "--warm-spares needs --max-restarts")) << never.err;
}

}  // namespace
}  // namespace lockstep
