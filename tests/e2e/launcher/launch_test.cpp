// Tests what `lockstep run` gives to ranks, and where their output goes.
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>

#include "tests/e2e/launch.h"

namespace lockstep {
namespace {

TEST(LockstepRun, GivesRanksWhatTorchrunGives) {
  const ProgramEnd end = run({"--nproc_per_node=2", "--role", "trainer", "--rdzv-id", "j1", "--max_restarts=3"},
                             shell("echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $GROUP_RANK "
                                   "$GROUP_WORLD_SIZE $ROLE_RANK $ROLE_WORLD_SIZE $ROLE_NAME $MASTER_ADDR "
                                   "$TORCHELASTIC_RESTART_COUNT $TORCHELASTIC_MAX_RESTARTS $TORCHELASTIC_RUN_ID "
                                   "$TORCHELASTIC_USE_AGENT_STORE; test $MASTER_PORT -gt 0 || echo no port"));
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_EQ(sorted_lines(end.out), (Words{"0 0 2 2 0 1 0 2 trainer 127.0.0.1 0 3 j1 False",
                                          "1 1 2 2 0 1 1 2 trainer 127.0.0.1 0 3 j1 False"}));
  EXPECT_EQ(end.err, "");
}

TEST(LockstepRun, SharesThreadsUnlessTheUserDid) {
  const Words print = shell("echo $OMP_NUM_THREADS $OPENBLAS_NUM_THREADS $MKL_NUM_THREADS");
  const ProgramEnd shared = run({"--nproc-per-node=64"}, print, kNoThreads);
  EXPECT_EQ(sorted_lines(shared.out).front().substr(0, 2), sorted_lines(shared.out).back().substr(0, 2));
  EXPECT_TRUE(std::regex_match(sorted_lines(shared.out).front(), std::regex("([1-9][0-9]*) \\1 \\1"))) << shared.out;
  Changes mine = kNoThreads;
  mine["OMP_NUM_THREADS"] = "7";
  EXPECT_EQ(run({}, print, mine).out, "7\n") << "OpenBLAS and MKL follow OMP_NUM_THREADS by themselves";
}

TEST(LockstepRun, StartsManyRanks) {
  const ProgramEnd end = run({"--nproc-per-node=100"}, shell("echo $RANK"));
  EXPECT_EQ(end.code, 0) << end.err;
  const Words lines = sorted_lines(end.out);
  EXPECT_EQ(std::set<std::string>(lines.begin(), lines.end()).size(), 100U);
}

TEST(LockstepRun, ReplacesTheLocalRankMacro) {
  EXPECT_EQ(sorted_lines(run({"--nproc-per-node=2"}, {"echo", "log_${local_rank}"}).out), (Words{"log_0", "log_1"}));
}

TEST(LockstepRun, RunsScriptsWithPython) {
  const TemporaryFolder folder;
  std::ofstream(folder / "hello.py") << "import os, sys\nprint(os.environ['RANK'], sys.argv[1:])\n";
  EXPECT_EQ(run({}, {folder / "hello.py", "--x", "1"}).out, "0 ['--x', '1']\n");
}

TEST(LockstepRun, LetsRanksMeetWithoutATcpListener) {
  const ProgramEnd end = run({"--nproc-per-node=3"}, {kBin + "/launch_rank", "meet"});
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_EQ(sorted_lines(end.out), (Words{"rank 0: met 3 of 3", "rank 1: met 3 of 3", "rank 2: met 3 of 3"}));
  const ProgramEnd store = run({}, shell("echo $LOCKSTEP_STORE; stat -c %a $(dirname ${LOCKSTEP_STORE#unix:})"));
  EXPECT_TRUE(std::regex_match(store.out, std::regex("unix:/[^\n]*\n700\n"))) << store.out;
}

TEST(LockstepRun, PassesEachByteOfBothStreamsOn) {
  // 1 MB without a line end, with zero bytes.
  const ProgramEnd end = run({}, shell("head -c 1000000 /dev/zero >&2; head -c 1000000 /dev/zero; printf end >&2"));
  EXPECT_EQ(end.code, 0);
  EXPECT_EQ(end.out, std::string(1000000, '\0'));
  EXPECT_EQ(end.err, std::string(1000000, '\0') + "end");
}

TEST(Logs, LieWhereTorchrunPutsThem) {
  const TemporaryFolder folder;
  const ProgramEnd end =
      run({"--nproc-per-node=2", "--log-dir", folder.path(), "--rdzv-id", "job9", "--redirects", "3"},
          shell("echo out $RANK; echo err $RANK >&2"));
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_EQ(end.out + end.err, "");
  const fs::path job = job_log(folder.path());
  EXPECT_EQ(job.filename().string().rfind("job9_", 0), 0U) << job;
  for (const std::string rank : {"0", "1"}) {
    EXPECT_EQ(content(job / "attempt_0" / rank / "stdout.log"), "out " + rank + "\n");
    EXPECT_EQ(content(job / "attempt_0" / rank / "stderr.log"), "err " + rank + "\n");
  }
}

TEST(Logs, PlaceIsToldWhereNoneWasAskedFor) {
  const TemporaryFolder folder;
  const ProgramEnd end = run({"--rdzv-id", "j2", "-r", "1"}, {"true"}, {{"TMPDIR", folder.path()}});
  EXPECT_EQ(end.err.rfind("lockstep run: logs in " + folder.path() + "/lockstep_j2_", 0), 0U) << end.err;
}

TEST(Logs, TeeShowsLinesWithTheirRank) {
  const TemporaryFolder folder;
  const ProgramEnd end = run({"--nproc-per-node=2", "--log-dir", folder.path(), "-t", "3", "--role", "trainer"},
                             shell("echo out $RANK; printf 'err %s' $RANK >&2"));
  EXPECT_EQ(sorted_lines(end.out), (Words{"[trainer0]:out 0", "[trainer1]:out 1"}));
  EXPECT_EQ(sorted_lines(end.err), (Words{"[trainer0]:err 0", "[trainer1]:err 1"}));
  EXPECT_EQ(content(job_log(folder.path()) / "attempt_0/1/stdout.log"), "out 1\n");
  EXPECT_EQ(content(job_log(folder.path()) / "attempt_0/1/stderr.log"), "err 1");
}

TEST(Logs, StreamsAreChosenByRank) {
  const TemporaryFolder folder;
  const ProgramEnd end = run({"--nproc-per-node=2", "--log-dir", folder.path(), "-r", "0:1,1:2"},
                             shell("echo out $RANK; echo err $RANK >&2"));
  EXPECT_EQ(end.out, "out 1\n");
  EXPECT_EQ(end.err, "err 0\n");
}

TEST(Logs, FilterHidesRanksOnTheConsoleOnly) {
  const TemporaryFolder folder;
  const ProgramEnd end =
      run({"--nproc-per-node=3", "--log-dir", folder.path(), "--tee", "1", "--local-ranks-filter", "1"},
          shell("echo out $RANK; echo err $RANK >&2"));
  EXPECT_EQ(end.out, "[default1]:out 1\n");
  EXPECT_EQ(end.err, "err 1\n");
  EXPECT_EQ(content(job_log(folder.path()) / "attempt_0/2/stdout.log"), "out 2\n");
}

TEST(Logs, LastLinesComeFromTheFileToo) {
  const TemporaryFolder folder;
  const ProgramEnd end = run({"--log-dir", folder.path(), "-r", "2"}, shell("echo in the file >&2; exit 9"));
  EXPECT_TRUE(has(end.err, "    | in the file")) << end.err;
}

// A Python program, run as by torchrun: rank 0 listens on MASTER_PORT.
TEST(Python, DistributedDataParallelRunsUnderTheLauncher) {
  const std::string python = "/usr/bin/python3";
  if (run_program({python, "-c", "import torch.distributed"}).code != 0) {
    GTEST_SKIP() << python << " has no torch (package python3-torch)";
  }
  const TemporaryFolder folder;
  std::ofstream(folder / "ddp.py") << R"(
import sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1))
model(torch.full((1, 3), float(dist.get_rank()))).sum().backward()
total = torch.ones(4) * (dist.get_rank() + 1)
dist.all_reduce(total)
# In one write: the ranks share a pipe.
sys.stdout.write(f"rank {dist.get_rank()} sum {total.tolist()} grad {model.module.weight.grad.tolist()}\n")
)";
  // Debian 13's PyTorch is built without libuv, and asks for it by default.
  const ProgramEnd end = run_program(launch({"--nproc-per-node=2"}, {folder / "ddp.py"}),
                                     {{"PYTHON_EXEC", python}, {"USE_LIBUV", "0"}}, std::chrono::seconds(120));
  EXPECT_EQ(end.code, 0) << end.err;
  const std::string rest = "sum [3.0, 3.0, 3.0, 3.0] grad [[0.5, 0.5, 0.5]]";
  EXPECT_EQ(sorted_lines(end.out), (Words{"rank 0 " + rest, "rank 1 " + rest}));
}

}  // namespace
}  // namespace lockstep
