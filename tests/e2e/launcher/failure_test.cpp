// Tests `lockstep run` when a rank fails, and with invalid command lines.
#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/e2e/launch.h"

namespace lockstep {
namespace {

TEST(Failure, IsReportedWithRankCauseAndLastLines) {
  const ProgramEnd end =
      run({"--nproc-per-node=3"},
          shell("if [ $RANK = 1 ]; then echo first >&2; echo my last words >&2; exit 42; fi; exec sleep 300"));
  EXPECT_EQ(end.code, 1);
  EXPECT_TRUE(has(end.err, "rank 1 (local rank 1, pid ")) << end.err;
  EXPECT_TRUE(has(end.err, "failed first: exit code 42")) << end.err;
  EXPECT_TRUE(has(end.err, "    | first\n    | my last words\n")) << end.err;
  EXPECT_TRUE(has(end.err, "rank 0: was ended by the launcher")) << end.err;
  EXPECT_TRUE(has(end.err, "rank 2: was ended by the launcher")) << end.err;
  EXPECT_TRUE(has(end.err, "fix: ")) << end.err;
}

TEST(Failure, NamesTheSignal) {
  const ProgramEnd end = run({"--nproc-per-node=2"}, shell("[ $RANK = 0 ] && kill -SEGV $$; exec sleep 300"));
  EXPECT_EQ(end.code, 1);
  EXPECT_TRUE(has(end.err, "rank 0 ")) << end.err;
  EXPECT_TRUE(has(end.err, "killed by SIGSEGV (Segmentation fault)")) << end.err;
  EXPECT_TRUE(has(end.err, "gdb")) << end.err;
}

// Ranks may obey SIGTERM or ignore it. The test's own bound is far below the 120 s for which they would wait.
TEST(Failure, EndsRanksThatWaitForTheLostOne) {
  for (const char* mode : {"lose", "lose-deaf"}) {
    const ProgramEnd end = run({"--nproc-per-node=3"}, {kBin + "/launch_rank", mode, "2"});
    EXPECT_EQ(end.code, 1);
    EXPECT_TRUE(has(end.err, "rank 2 (local rank 2, ")) << mode << ": " << end.err;
    EXPECT_TRUE(has(end.err, "killed by SIGKILL (Killed)\n  its last lines on standard error:\n    | about to die"))
        << mode << ": " << end.err;
  }
}

TEST(Failure, BlamesTheCauseAndNotItsVictims) {
  // Rank 0 has noticed that rank 1 is gone, and ends before rank 1, which is still unwinding.
  const TemporaryFolder folder;
  const std::string fifo = folder / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const ProgramEnd end = run({"--nproc-per-node=2"}, shell("if [ $RANK = 0 ]; then exec 3>" + fifo +
                                                           "; echo 'Connection closed by peer' >&2; exit 1; fi; "
                                                           "trap '' TERM; echo 'ValueError: the cause' >&2; cat " +
                                                           fifo + "; exit 5"));
  EXPECT_EQ(end.code, 1);
  EXPECT_TRUE(has(end.err, "rank 1 (local rank 1, ")) << end.err;
  EXPECT_TRUE(has(end.err, "failed first: exit code 5")) << end.err;
}

// Both ranks end while the launcher is stopped, so it asks the second one to end after that one has failed by itself.
TEST(Failure, DoesNotClaimToHaveEndedARankThatFailedByItself) {
  const TemporaryFolder folder;
  const std::string fifos[2] = {folder / "0", folder / "1"};
  for (const std::string& fifo : fifos) ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  RunningProgram job(
      launch({"--nproc-per-node=2"}, shell("echo pid=$$; cat " + folder.path() + "/$RANK; exit $((3 + RANK))")));
  {
    std::vector<UniqueFd> writers;  // each opens once its rank reads
    for (const std::string& fifo : fifos) writers.emplace_back(::open(fifo.c_str(), O_WRONLY | O_CLOEXEC));
    while (pids_after(job.out(), "pid").size() < 2) ASSERT_TRUE(job.wait_for_more(soon())) << job.err();
    job.send(SIGSTOP);
  }
  for (const pid_t pid : pids_after(job.out(), "pid")) {
    const UniqueFd rank(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    pollfd ended{rank.get(), POLLIN, 0};
    ASSERT_EQ(::poll(&ended, 1, 60'000), 1);
  }
  job.send(SIGCONT);
  const ProgramEnd end = job.wait(soon());
  const bool zero_is_first = has(end.err, "rank 0 (local rank 0, ");
  EXPECT_TRUE(has(end.err, zero_is_first ? "rank 1: failed too, exit code 4" : "rank 0: failed too, exit code 3"))
      << end.err;
  EXPECT_FALSE(has(end.err, "ended by the launcher")) << end.err;
}

TEST(Failure, ShowsTheMessageOfTheErrorFile) {
  const ProgramEnd end = run({}, shell("echo '{\"message\": {\"message\": \"ValueError: bad batch\"}}' "
                                       "> $TORCHELASTIC_ERROR_FILE; exit 1"));
  EXPECT_TRUE(has(end.err, "its message: ValueError: bad batch")) << end.err;
}

struct Refused {
  const char* name;
  const char* call;
  int code;
  const char* says;
  const char* fix;
  friend std::ostream& operator<<(std::ostream& out, const Refused& c) { return out << c.name; }
};
class RefusedCalls : public ::testing::TestWithParam<Refused> {};

TEST_P(RefusedCalls, AreNamedWithWhatToDo) {
  const Refused& each = GetParam();
  Words words{kBin + "/refuse_call", each.call, std::to_string(each.code)};
  const Words command = launch({}, {"/bin/true"});
  words.insert(words.end(), command.begin(), command.end());
  const ProgramEnd end = run_program(words);
  if (end.code == 77) GTEST_SKIP() << "this kernel lets no process sandbox itself";
  if (end.code == 0) GTEST_SKIP() << "this C library does not call " << each.call;
  EXPECT_EQ(end.code, 1);
  EXPECT_TRUE(has(end.err, each.says)) << end.err;
  EXPECT_TRUE(has(end.err, each.fix)) << end.err;
}

INSTANTIATE_TEST_SUITE_P(Table, RefusedCalls,
                         ::testing::Values(Refused{"pidfd_open_missing", "pidfd_open", ENOSYS,
                                                   "pidfd_open: Function not implemented", "Linux 5.4 or newer"},
                                           Refused{"pidfd_open_forbidden", "pidfd_open", EPERM,
                                                   "pidfd_open: Operation not permitted", "seccomp"},
                                           Refused{
                                               "no_thread", "clone3", EPERM,
                                               "cannot start the thread that serves the store: Operation not permitted",
                                               "answer ENOSYS to clone3"},
                                           Refused{"limit_of_processes", "clone3", EAGAIN,
                                                   "cannot start the thread that serves the store", "raise ulimit -u"}),
                         [](const auto& test) { return test.param.name; });

struct BadCommand {
  const char* name;
  Words words;
  int code;
  const char* says;
  friend std::ostream& operator<<(std::ostream& out, const BadCommand& c) { return out << c.name; }
};
class BadCommands : public ::testing::TestWithParam<BadCommand> {};

TEST_P(BadCommands, EndWithAClearError) {
  Words words{kBin + "/lockstep"};
  words.insert(words.end(), GetParam().words.begin(), GetParam().words.end());
  const ProgramEnd end = run_program(words);
  EXPECT_EQ(end.code, GetParam().code);
  EXPECT_TRUE(has(end.err, GetParam().says)) << end.err;
  EXPECT_TRUE(has(end.err, "fix: ")) << end.err;
  EXPECT_EQ(end.out, "");
}

// Like a shell, it skips folders in PATH.
TEST(Programs, AreFilesAndNotFoldersOfTheirName) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "first/mark");
  fs::create_directories(folder / "second");
  std::ofstream(folder / "second/mark") << "#!/bin/sh\necho found\n";
  fs::permissions(folder / "second/mark", fs::perms::owner_all);
  const std::string path = (folder / "first") + ":" + (folder / "second") + ":/usr/bin:/bin";
  const ProgramEnd end = run({}, {"mark"}, {{"PATH", path}});
  EXPECT_EQ(end.out, "found\n") << end.err;
}

// As in a build folder that has the command alone; and in a shell whose PATH does not lead to the build.
TEST(Programs, ThatAreExamplesAreBuiltOrPutOnThePathAsTheErrorSays) {
  const TemporaryFolder folder;
  fs::copy_file(kBin + "/lockstep", folder / "lockstep");
  const Changes path{{"PATH", "/usr/bin:/bin"}};
  for (const char* name : {"ddp_mnist", "elsewhere/ddp_mnist"}) {
    const ProgramEnd end = run_program({folder / "lockstep", "run", name}, path);
    EXPECT_EQ(end.code, 1);
    EXPECT_TRUE(has(end.err, "it is an example of Lockstep")) << end.err;
    EXPECT_TRUE(has(end.err, "cmake --build --preset release --target ddp_mnist")) << end.err;
  }
  std::ofstream(folder / "ddp_mnist") << "#!/bin/sh\n";
  fs::permissions(folder / "ddp_mnist", fs::perms::owner_all);
  const ProgramEnd end = run_program({folder / "lockstep", "run", "ddp_mnist"}, path);
  EXPECT_TRUE(has(end.err, "export PATH=")) << end.err;
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadCommands,
    ::testing::Values(
        BadCommand{"subcommand", {"runn"}, 2, "unknown subcommand 'runn'; did you mean 'run'?"},
        BadCommand{"flag", {"run", "--nproc_per_nod", "2", "true"}, 2, "did you mean '--nproc-per-node'?"},
        BadCommand{"flag_far_from_all", {"run", "--zzz", "true"}, 2, "unknown flag '--zzz'"},
        BadCommand{"flag_without_value", {"run", "--nproc-per-node"}, 2, "--nproc-per-node"},
        BadCommand{"no_program", {"run", "--nproc-per-node", "2"}, 2, "there is no program to run"},
        BadCommand{"no_number", {"run", "--nproc-per-node", "two", "true"}, 2, "--nproc-per-node is 'two'"},
        BadCommand{"elastic", {"run", "--nnodes", "2:1", "true"}, 2, "--nnodes is '2:1'"},
        BadCommand{"no_such_program", {"run", "./no-such-program"}, 1, "cannot start ./no-such-program"},
        BadCommand{"no_such_program_of_launch", {"launch", "--cpu", "./no-such-program"}, 1, "where: the launcher\n"},
        BadCommand{"not_on_the_path", {"run", "no-such-program"}, 1, "a program of the current folder is written ./"},
        BadCommand{"no_script", {"run", "/etc/passwd"}, 1, "it is not a program, and has no first line"},
        BadCommand{"log_folder_is_a_file", {"run", "--log-dir", "/etc/passwd/x", "true"}, 1, "/etc/passwd/x"},
        BadCommand{"flag_of_env", {"env", "--jsn"}, 2, "did you mean '--json'?"}),
    [](const auto& test) { return test.param.name; });

TEST(Programs, ThatOnlyNeedAPermissionGetThatAdvice) {
  const TemporaryFolder folder;
  const std::string script = folder / "train.sh", source = folder / "train.cpp";
  std::ofstream(script) << "#!/bin/sh\n";
  std::ofstream(source) << "int main() {}\n";
  EXPECT_TRUE(has(run({}, {script}).err, "chmod +x " + script));
  const std::string refusal = run({}, {source}).err;
  EXPECT_FALSE(has(refusal, "chmod")) << refusal;
  EXPECT_TRUE(has(refusal, "if it is a source file, name the program that is built from it")) << refusal;
}

TEST(MasterPort, ThatIsBusyIsNamed) {
  const auto [listener, port] = bound_socket();
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  const ProgramEnd end = run({"--master-port", port}, {"true"});
  EXPECT_EQ(end.code, 1);
  EXPECT_TRUE(has(end.err, "master port " + port + " cannot be used: Address already in use")) << end.err;
}

TEST(Restarts, StartAllRanksAgain) {
  const TemporaryFolder folder;
  const ProgramEnd end =
      run({"--nproc-per-node=2", "--max-restarts=3", "--log-dir", folder.path(), "-t", "1"},
          shell("echo $TORCHELASTIC_RESTART_COUNT; "
                "[ $TORCHELASTIC_RESTART_COUNT = 2 ] && exit 0; [ $RANK = 1 ] && exit 3; sleep 300"));
  EXPECT_EQ(end.code, 0) << end.err;
  // In attempts 0 and 1 rank 0 may be ended before it prints.
  for (const char* line : {"[default1]:0\n", "[default1]:1\n", "[default0]:2\n", "[default1]:2\n"}) {
    EXPECT_TRUE(has(end.out, line)) << end.out;
  }
  EXPECT_TRUE(has(end.err, "restart 1 of 3")) << end.err;
  EXPECT_TRUE(has(end.err, "restart 2 of 3")) << end.err;
  EXPECT_EQ(content(job_log(folder.path()) / "attempt_2/0/stdout.log"), "2\n");
}

TEST(Restarts, RanksMeetAgain) {
  const ProgramEnd end = run({"--nproc-per-node=2", "--max-restarts=1"},
                             shell(kBin + "/launch_rank meet | sed s/^/$TORCHELASTIC_RESTART_COUNT:/; "
                                          "[ $TORCHELASTIC_RESTART_COUNT = 1 ]"));
  EXPECT_EQ(end.code, 0) << end.err;
  for (const char* line : {"1:rank 0: met 2 of 2\n", "1:rank 1: met 2 of 2\n"})
    EXPECT_TRUE(has(end.out, line)) << end.out;
}

// Another start cannot correct a mistake in the arguments.
TEST(Restarts, AreNotSpentOnARankThatRefusesItsArguments) {
  for (const std::string& mistake : {std::string("--no-such-flag"), std::string("--task no-such-task")}) {
    const ProgramEnd end =
        run({"--nproc-per-node=2", "--max-restarts=3"}, shell("exec " + kBin + "/lockstep train " + mistake));
    EXPECT_EQ(end.code, 1);
    EXPECT_TRUE(has(end.err, "would refuse it again")) << end.err;
    EXPECT_FALSE(has(end.err, "restart 1 of 3")) << end.err;
    EXPECT_FALSE(has(end.err, "[rank ")) << "the launcher has shown the message\n" << end.err;
  }
}

// What a rank starts is not the rank.
TEST(Restarts, FollowARefusalOfAnotherProgram) {
  const ProgramEnd end =
      run({"--max-restarts=1", "--nproc-per-node=2"},
          shell("[ $RANK = 0 ] && exec sleep 300; " + kBin + "/lockstep train --no-such-flag 2>&1; exit 2"));
  EXPECT_EQ(end.code, 1);
  EXPECT_TRUE(has(end.err, "restart 1 of 1")) << end.err;
  EXPECT_TRUE(has(end.out, "[rank 1] lockstep train: error: unknown flag")) << "the launcher does not show it";
}

TEST(Restarts, AreCounted) {
  const ProgramEnd end = run({"--max-restarts=2"}, shell("echo try; exit 3"));
  EXPECT_EQ(end.code, 1);
  EXPECT_EQ(end.out, "try\ntry\ntry\n");
  EXPECT_TRUE(has(end.err, "after 2 restarts")) << end.err;
}

}  // namespace
}  // namespace lockstep
