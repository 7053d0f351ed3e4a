// `lockstep run` with real processes: what ranks get, and what happens when one of them, or the launcher, is gone.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "lockstep/base/unique_fd.h"
#include "tests/support/running_program.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;
using Changes = std::map<std::string, std::optional<std::string>>;

const std::string kBin = LOCKSTEP_BIN_DIR;
const Changes kNoThreads{{"OMP_NUM_THREADS", {}}, {"OPENBLAS_NUM_THREADS", {}}, {"MKL_NUM_THREADS", {}}};

Deadline soon() { return Deadline::after(std::chrono::seconds(60)); }

Words launch(Words flags, const Words& program) {
  Words words{kBin + "/lockstep", "run"};
  words.insert(words.end(), flags.begin(), flags.end());
  words.insert(words.end(), program.begin(), program.end());
  return words;
}

Words shell(const std::string& script) { return {"sh", "-c", script}; }

ProgramEnd run(const Words& flags, const Words& program, const Changes& changes = {}) {
  return run_program(launch(flags, program), changes);
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string content(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

Words sorted_lines(const std::string& text) {
  std::istringstream in(text);
  Words lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  return lines;
}

// The numbers after "NAME=" in a text, such as "child=123".
std::vector<pid_t> pids_after(const std::string& text, const std::string& name) {
  std::vector<pid_t> pids;
  const std::regex pattern(name + "=([0-9]+)\n");
  for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it) {
    pids.push_back(static_cast<pid_t>(std::stoi((*it)[1])));
  }
  return pids;
}

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
  // 1 MB without a line end, zeros among it.
  const ProgramEnd end = run({}, shell("head -c 1000000 /dev/zero >&2; head -c 1000000 /dev/zero; printf end >&2"));
  EXPECT_EQ(end.code, 0);
  EXPECT_EQ(end.out, std::string(1000000, '\0'));
  EXPECT_EQ(end.err, std::string(1000000, '\0') + "end");
}

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

// Whether they obey SIGTERM or not; the outer bound is the test's own, far below the 120 s for which they would wait.
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
  // Rank 0 has seen that rank 1 is gone, and ends before rank 1, which is still unwinding, has ended itself.
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

TEST(Failure, ShowsTheMessageOfTheErrorFile) {
  const ProgramEnd end = run({}, shell("echo '{\"message\": {\"message\": \"ValueError: bad batch\"}}' "
                                       "> $TORCHELASTIC_ERROR_FILE; exit 1"));
  EXPECT_TRUE(has(end.err, "its message: ValueError: bad batch")) << end.err;
}

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

INSTANTIATE_TEST_SUITE_P(
    Table, BadCommands,
    ::testing::Values(
        BadCommand{"subcommand", {"runn"}, 2, "unknown subcommand 'runn'. Did you mean 'run'?"},
        BadCommand{"flag", {"run", "--nproc_per_nod", "2", "true"}, 2, "Did you mean '--nproc-per-node'?"},
        BadCommand{"flag_far_from_all", {"run", "--zzz", "true"}, 2, "unknown flag '--zzz'."},
        BadCommand{"flag_without_value", {"run", "--nproc-per-node"}, 2, "--nproc-per-node"},
        BadCommand{"no_program", {"run", "--nproc-per-node", "2"}, 2, "no program to run"},
        BadCommand{"no_number", {"run", "--nproc-per-node", "two", "true"}, 2, "--nproc-per-node is 'two'"},
        BadCommand{"elastic", {"run", "--nnodes", "1:2", "true"}, 2, "not supported"},
        BadCommand{"no_such_program", {"run", "./no-such-program"}, 1, "cannot start ./no-such-program"},
        BadCommand{"not_on_the_path", {"run", "no-such-program"}, 1, "a program of the current folder is written ./"},
        BadCommand{"not_executable", {"run", "/etc/passwd"}, 1, "chmod +x"},
        BadCommand{"log_folder_is_a_file", {"run", "--log-dir", "/etc/passwd/x", "true"}, 1, "/etc/passwd/x"},
        BadCommand{"flag_of_env", {"env", "--jsn"}, 2, "Did you mean '--json'?"}),
    [](const auto& test) { return test.param.name; });

// A socket on a free port of the loopback address, and that port.
std::pair<UniqueFd, std::string> bound_socket() {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  return {std::move(fd), std::to_string(ntohs(address.sin_port))};
}

TEST(MasterPort, ThatIsBusyIsNamed) {
  const auto [listener, port] = bound_socket();
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  const ProgramEnd end = run({"--master-port", port}, {"true"});
  EXPECT_EQ(end.code, 1);
  EXPECT_TRUE(has(end.err, "master port " + port + " cannot be used: Address already in use")) << end.err;
}

// Each rank starts a child, which starts one in a session of its own; all name themselves. Then it does `last`.
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

// Which takes longer than the ranks have after a failure.
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
  const ProgramEnd end = run({}, shell("setsid sh -c 'echo far=$$; exec sleep 300' & sleep 0.2"));
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
    // After a kill the guard removes it, a moment later than the ranks.
    const Deadline deadline = soon();
    while (!fs::is_empty(folder / "lockstep") && !deadline.passed()) ::usleep(1000);
    EXPECT_TRUE(fs::is_empty(folder / "lockstep"));
  }
}

// What is in the one folder that a job made in `base`.
fs::path job_log(const std::string& base) {
  for (const auto& entry : fs::directory_iterator(base)) return entry.path();
  return {};
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

TEST(Restarts, StartAllRanksAgain) {
  const TemporaryFolder folder;
  const ProgramEnd end =
      run({"--nproc-per-node=2", "--max-restarts=3", "--log-dir", folder.path(), "-t", "1"},
          shell("echo $TORCHELASTIC_RESTART_COUNT; "
                "[ $TORCHELASTIC_RESTART_COUNT = 2 ] && exit 0; [ $RANK = 1 ] && exit 3; sleep 300"));
  EXPECT_EQ(end.code, 0) << end.err;
  // In attempts 0 and 1 rank 0 may be ended before it has written.
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

TEST(Restarts, AreCounted) {
  const ProgramEnd end = run({"--max-restarts=2"}, shell("echo try; exit 3"));
  EXPECT_EQ(end.code, 1);
  EXPECT_EQ(end.out, "try\ntry\ntry\n");
  EXPECT_TRUE(has(end.err, "after 2 restarts")) << end.err;
}

// Two launchers on this host stand for two nodes.
class Nodes : public ::testing::Test {
 protected:
  Words node(int rank, const Words& flags, const Words& program) const {
    Words all{"--nnodes=2", "--node-rank=" + std::to_string(rank), "--master-port", port_};
    all.insert(all.end(), flags.begin(), flags.end());
    return launch(all, program);
  }
  const std::string port_ = bound_socket().second;
};

TEST_F(Nodes, MeetThroughTheStoreOfNode0) {
  RunningProgram second(node(1, {"--nproc-per-node=2"}, {kBin + "/launch_rank", "meet"}));
  RunningProgram first(node(0, {"--nproc-per-node=1"}, {kBin + "/launch_rank", "meet"}));
  const ProgramEnd end0 = first.wait(soon());
  const ProgramEnd end1 = second.wait(soon());
  EXPECT_EQ(end0.code, 0) << end0.err;
  EXPECT_EQ(end1.code, 0) << end1.err;
  EXPECT_EQ(end0.out, "rank 0: met 3 of 3\n");
  EXPECT_EQ(sorted_lines(end1.out), (Words{"rank 1: met 3 of 3", "rank 2: met 3 of 3"}));
}

TEST_F(Nodes, GetTheirRankAsTheyComeFromC10d) {
  const Words flags{"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:" + port_, "--rdzv-id=x"};
  RunningProgram one(launch(flags, shell("echo $RANK $GROUP_RANK $MASTER_PORT")));
  RunningProgram other(launch(flags, shell("echo $RANK $GROUP_RANK $MASTER_PORT")));
  const Words lines = sorted_lines(one.wait(soon()).out + other.wait(soon()).out);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].substr(0, 3), "0 0");
  EXPECT_EQ(lines[1].substr(0, 3), "1 1");
  EXPECT_EQ(lines[0].substr(3), lines[1].substr(3)) << "one master port for all";
}

TEST_F(Nodes, EndWhenARankOfAnotherNodeFails) {
  const Words program = shell("[ $RANK = 1 ] && { echo last word >&2; exit 9; }; exec sleep 300");
  RunningProgram second(node(1, {}, program));
  RunningProgram first(node(0, {}, program));
  for (const ProgramEnd& end : {first.wait(soon()), second.wait(soon())}) {
    EXPECT_EQ(end.code, 1);
    EXPECT_TRUE(has(end.err, "rank 1 (local rank 0, ")) << end.err;
    EXPECT_TRUE(has(end.err, "failed first: exit code 9\n  its last lines on standard error:\n    | last word"))
        << end.err;
  }
}

TEST_F(Nodes, RestartTogether) {
  const Words program = shell(
      "echo $RANK:$TORCHELASTIC_RESTART_COUNT; [ $TORCHELASTIC_RESTART_COUNT = 1 ] && exit 0; "
      "[ $RANK = 1 ] && exit 9; exec sleep 300");
  RunningProgram second(node(1, {"--max-restarts=1"}, program));
  RunningProgram first(node(0, {"--max-restarts=1"}, program));
  EXPECT_EQ(first.wait(soon()).code, 0);
  EXPECT_EQ(second.wait(soon()).code, 0);
  // In attempt 0 a rank may be ended before it has written.
  EXPECT_TRUE(has(first.out(), "0:1\n")) << first.out();
  EXPECT_TRUE(has(second.out(), "1:1\n")) << second.out();
}

TEST_F(Nodes, EndWhenOneIsInterrupted) {
  RunningProgram second(node(1, {"--max-restarts=3"}, shell("echo ready; exec sleep 300")));
  RunningProgram first(node(0, {"--max-restarts=3"}, shell("echo ready; exec sleep 300")));
  ASSERT_TRUE(first.wait_for("ready", soon()));
  ASSERT_TRUE(second.wait_for("ready", soon()));
  second.send(SIGINT);
  EXPECT_EQ(second.wait(soon()).code, 128 + SIGINT);
  const ProgramEnd end = first.wait(soon());
  EXPECT_EQ(end.code, 1);
  EXPECT_TRUE(has(end.err, "the launcher of node 1 was told to end by SIGINT")) << end.err;
}

TEST_F(Nodes, EndWhenALauncherIsKilled) {
  for (const bool kill_first : {true, false}) {
    RunningProgram second(node(1, {}, shell("echo rank=$$; exec sleep 300")));
    RunningProgram first(node(0, {}, shell("echo rank=$$; exec sleep 300")));
    ASSERT_TRUE(first.wait_for("rank=", soon()));
    ASSERT_TRUE(second.wait_for("rank=", soon()));
    RunningProgram& killed = kill_first ? first : second;
    RunningProgram& left = kill_first ? second : first;
    killed.send(SIGKILL);
    const ProgramEnd end = left.wait(soon());
    EXPECT_EQ(end.code, 1);
    EXPECT_TRUE(has(end.err, kill_first ? "the launcher of node 0" : "the launcher of node 1")) << end.err;
    for (const pid_t pid : pids_after(first.out() + second.out(), "rank")) EXPECT_TRUE(wait_until_gone(pid, soon()));
  }
}

TEST_F(Nodes, AreNamedIfTheyDoNotCome) {
  const ProgramEnd end = run({"--nnodes=2", "--master-port", port_, "--rdzv-conf=timeout=0.5"}, {"true"});
  EXPECT_EQ(end.code, 1);
  EXPECT_TRUE(has(end.err, "node 1 of 2 did not come within 0.5 s")) << end.err;
}

TEST_F(Nodes, CannotClaimOneRank) {
  RunningProgram first(node(0, {}, shell("exec sleep 300")));
  RunningProgram second(node(1, {}, shell("echo ready; exec sleep 300")));
  ASSERT_TRUE(second.wait_for("ready", soon()));
  const ProgramEnd end = run_program(node(1, {}, {"true"}));
  EXPECT_EQ(end.code, 1);
  EXPECT_TRUE(has(end.err, "two launchers claim node rank 1")) << end.err;
}

TEST_F(Nodes, MustAgreeOnTheirFlags) {
  RunningProgram first(node(0, {"--max-restarts=1"}, {"true"}));
  RunningProgram second(node(1, {"--max-restarts=2"}, {"true"}));
  EXPECT_EQ(first.wait(soon()).code, 1);
  const ProgramEnd end = second.wait(soon());
  EXPECT_EQ(end.code, 1);
  EXPECT_TRUE(has(first.err() + end.err, "differ in max_restarts: ")) << first.err() << end.err;
}

TEST_F(Nodes, NeedASecretBeyondThisHost) {
  const ProgramEnd end = run({"--nnodes=2", "--master-addr=0.0.0.0", "--master-port", port_}, {"true"},
                             {{"LOCKSTEP_SECRET", {}}, {"LOCKSTEP_SECRET_FILE", {}}});
  EXPECT_EQ(end.code, 1);
  EXPECT_TRUE(has(end.err, "LOCKSTEP_SECRET")) << end.err;
}

// A Python program, as torchrun would run it: rank 0 listens on MASTER_PORT.
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
  const ProgramEnd end = run_program(launch({"--nproc-per-node=2"}, {folder / "ddp.py"}), {{"PYTHON_EXEC", python}},
                                     std::chrono::seconds(120));
  EXPECT_EQ(end.code, 0) << end.err;
  const std::string rest = "sum [3.0, 3.0, 3.0, 3.0] grad [[0.5, 0.5, 0.5]]";
  EXPECT_EQ(sorted_lines(end.out), (Words{"rank 0 " + rest, "rank 1 " + rest}));
}

}  // namespace
}  // namespace lockstep
