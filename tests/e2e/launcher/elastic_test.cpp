// Tests `lockstep run --nnodes MIN:MAX` with hosts that join and leave; several launchers on this host represent them.
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/e2e/launch.h"

namespace lockstep {
namespace {

using Program = std::unique_ptr<RunningProgram>;

class Elastic : public ::testing::Test {
 protected:
  Words host(const std::string& nnodes, const Words& more, const Words& program) const {
    Words flags{"--nnodes=" + nnodes, "--rdzv-endpoint=127.0.0.1:" + port_.text()};
    flags.insert(flags.end(), more.begin(), more.end());
    return launch(flags, program);
  }
  Program start(const std::string& nnodes, const Words& more = {}, const Changes& changes = {}) const {
    Words all{"--rdzv-conf=last_call_timeout=0.2"};
    all.insert(all.end(), more.begin(), more.end());
    return std::make_unique<RunningProgram>(host(nnodes, all, {kBin + "/launch_rank", "stay"}), changes);
  }
  // Waits for a line of any rank on that host.
  static void expect(const Program& host, const std::string& text) {
    EXPECT_TRUE(host->wait_for(text, soon())) << text << " did not come:\n" << host->out() << host->err();
  }
  static void expect_end(const Program& host, int code, const std::string& text) {
    const ProgramEnd end = host->wait(soon());
    EXPECT_EQ(end.code, code);
    EXPECT_TRUE(has(end.err, text)) << end.err;
  }
  const LoopbackPort port_;
};

TEST_F(Elastic, BeginsWithTheLeastAndGrows) {
  const Program a = start("1:3", {"--nproc-per-node=2"});
  expect(a, "rank 1: joined 2, restarts 0, node 0 of 1");
  const Program b = start("1:3");
  expect(b, "rank 2: joined 3, restarts 0, node 1 of 2");
  expect(a, "rank 0: joined 3, restarts 0, node 0 of 2");
  EXPECT_TRUE(has(a->err(), " joined\n")) << a->err();
  const Program c = start("1:3", {"--nproc-per-node=2"});
  expect(c, "rank 4: joined 5, restarts 0, node 2 of 3");
  expect(b, "rank 2: joined 5, restarts 0, node 1 of 3");
  a->send(SIGTERM);
  EXPECT_EQ(a->wait(soon()).code, 128 + SIGTERM);
  expect_end(b, 1, "was told to end by SIGTERM; it serves the rendezvous, so the job ends");
  expect_end(c, 1, "was told to end by SIGTERM; it serves the rendezvous, so the job ends");
}

TEST_F(Elastic, GoesOnWithoutALostHostAndTakesItBack) {
  const Program a = start("1:2", {"--max-restarts=0"});
  expect(a, "joined 1,");
  Program b = start("1:2", {"--max-restarts=0"});
  expect(a, "rank 0: joined 2,");
  b->send(SIGKILL);
  expect(a, " was lost: connection closed");
  expect(a, "the ranks start: 1 on 1 host");
  b = start("1:2", {"--max-restarts=0"});
  expect(b, "rank 1: joined 2, restarts 0, node 1 of 2");
  b->send(SIGTERM);
  expect(a, " left: the launcher of node 1 was told to end by SIGTERM");
}

TEST_F(Elastic, CountsAFailureAsARestart) {
  const Program a = start("2:3", {"--max-restarts=1"});
  const Program b = start("2:3", {"--max-restarts=1"});
  expect(a, "joined 2, restarts 0");
  for (const char* restarts : {"joined 2, restarts 1", ""}) {
    const std::string ranks = run_program({"pgrep", "-P", std::to_string(b->pid()), "-x", "launch_rank"}).out;
    ASSERT_EQ(::kill(std::stoi(ranks), SIGKILL), 0);
    if (*restarts == '\0') break;
    expect(a, "failed first: killed by SIGKILL (Killed)\n  all ranks are started again: restart 1 of 1");
    expect(b, "all ranks are started again: restart 1 of 1");
    expect(b, restarts);
  }
  expect_end(a, 1, "failed first: killed by SIGKILL (Killed)");
  expect_end(b, 1, "failed first: killed by SIGKILL (Killed)");
}

TEST_F(Elastic, LeavesNoKeysOfOldWorlds) {
  const Program a = start("1:2", {"--max-restarts=9"});
  expect(a, "joined 1,");
  const auto keys = [&] {
    const std::string& out = a->out();
    return out.substr(out.rfind("keys ") + 5);
  };
  std::vector<std::string> counts;
  for (int round = 1; round <= 3; ++round) {
    const std::string ranks = run_program({"pgrep", "-P", std::to_string(a->pid()), "-x", "launch_rank"}).out;
    ASSERT_EQ(::kill(std::stoi(ranks), SIGKILL), 0);
    expect(a, "joined 1, restarts " + std::to_string(round) + ", node 0 of 1, keys ");
    counts.push_back(keys());
  }
  EXPECT_EQ(counts[1], counts[2]);
}

TEST_F(Elastic, EndsWhereTooFewHostsCome) {
  const Program a = start("2:3", {"--rdzv-conf=join_timeout=0.5"});
  expect_end(a, 1, "1 of at least 2 hosts came within 0.5 s");
}

TEST_F(Elastic, GoesOnAtTheNextHostWhenTheServingOneIsLost) {
  Program a = start("1:3", {"--max-restarts=1"});
  expect(a, "joined 1,");
  const Program b = start("1:3", {"--max-restarts=1"});
  expect(b, "joined 2,");
  const Program c = start("1:3", {"--max-restarts=1"});
  expect(c, "joined 3,");
  a->send(SIGKILL);
  expect(b, ", which serves the rendezvous, is lost: ");
  expect(b, "serves it from now on, at tcp:127.0.0.1:");
  expect(b, "rank 0: joined 2, restarts 0, node 0 of 2");
  expect(c, "rank 1: joined 2, restarts 0, node 1 of 2");
  // The lost host comes back to the job's endpoint, and is told where the job is.
  a = start("1:3", {"--max-restarts=1", "--rdzv-conf=last_call_timeout=60"});
  expect(a, "the job runs already, and is served at tcp:127.0.0.1:");
  expect(a, "rank 2: joined 3, restarts 0, node 2 of 3");
  // The host that took over may be lost as well.
  b->send(SIGKILL);
  expect(c, "rank 0: joined 2, restarts 0, node 0 of 2");
  expect(a, "rank 1: joined 2, restarts 0, node 1 of 2");
  c->send(SIGTERM);
  EXPECT_EQ(c->wait(soon()).code, 128 + SIGTERM);
  expect_end(a, 1, "was told to end by SIGTERM; it serves the rendezvous, so the job ends");
}

// The kernel of a stopped process still accepts and acknowledges data. The other one waits for 4 s of silence.
TEST_F(Elastic, EndsWhereTheServingLauncherStandsStill) {
  const Words quick{"--rdzv-conf=last_call_timeout=0.2,keep_alive_interval=0.5,keep_alive_max_attempt=4"};
  const Program a = start("1:2", quick);
  expect(a, "joined 1,");
  const Program b = start("1:2", quick);
  expect(b, "joined 2,");
  a->send(SIGSTOP);
  expect_end(b, 1, ", which serves the rendezvous, is lost: ");
  EXPECT_TRUE(has(b->err(), "it has not answered for 4.0 s: its process is stopped")) << b->err();
  a->send(SIGCONT);
  expect(a, "the ranks start: 1 on 1 host");
}

TEST_F(Elastic, IsEndedBySignalsWhereTheServingLauncherStandsStill) {
  const char* const kCutShort = "SIGTERM arrived while this launcher was leaving the job";
  const Words patient{"--rdzv-conf=last_call_timeout=0.2,keep_alive_interval=100"};
  for (const bool twice : {false, true}) {
    const Program a = start("1:2", patient);
    expect(a, "joined 1,");
    const Program b = start("1:2", patient);
    expect(b, "joined 2,");
    a->send(SIGSTOP);
    b->send(SIGTERM);
    // Repeated until one signal has arrived after the ranks' end.
    const Deadline end_of_signals = soon();
    while (twice && !has(b->err(), kCutShort) && !end_of_signals.passed()) {
      b->send(SIGTERM);
      b->wait_for(kCutShort, Deadline::after(std::chrono::milliseconds(50)));
    }
    const ProgramEnd end = b->wait(soon());
    EXPECT_EQ(end.code, 128 + SIGTERM) << end.err;
    EXPECT_EQ(has(end.err, kCutShort), twice) << end.err;
  }
}

TEST_F(Elastic, RefusesAnotherJobOnItsPort) {
  const Program a = start("1:2", {"--rdzv-id=one"});
  expect(a, "joined 1,");
  expect_end(start("1:2", {"--rdzv-id=two"}), 1, ") has --rdzv-id two, ");
  const Program c = start("1:2", {"--rdzv-id=one"});
  expect(c, "joined 2,");
}

TEST_F(Elastic, RefusesAJobOfFixedRanksOnItsPort) {
  const Program a = start("1:2");
  expect(a, "joined 1,");
  const Words fixed{"--nnodes=2", "--master-port=" + port_.text()};
  for (const std::string node : {"0", "1"}) {
    Words flags = fixed;
    flags.push_back("--node-rank=" + node);
    const ProgramEnd end = run(flags, {kBin + "/launch_rank", "stay"});
    EXPECT_EQ(end.code, 1);
    const std::string owner = "(pid " + std::to_string(a->pid()) + ")";
    EXPECT_TRUE(has(end.err, node == "0" ? ": job 'none' (" : "another job is served, by the launcher on ")) << end.err;
    EXPECT_TRUE(has(end.err, owner)) << end.err;
  }
  const Program c = start("1:2");
  expect(c, "joined 2,");
}

TEST_F(Elastic, SaysWhatAHostWaitsFor) {
  const Program a = start("1:2");
  expect(a, "joined 1,");
  const Program b = start("1:2");
  expect(b, "joined 2,");
  const Program c = start("1:2");
  expect(c, "(pid " + std::to_string(c->pid()) + "): the job has all its 2 hosts (");
  expect(c, "; this host waits up to 600 s for a place. If it is of another job, that needs an endpoint of its own; ");
  b->send(SIGKILL);
  expect(c, "joined 2,");
}

TEST_F(Elastic, RefusesAnotherBuild) {
  const TemporaryFolder folder;
  const std::string other = folder / "launch_rank";
  fs::copy_file(kBin + "/launch_rank", other);
  std::ofstream(other, std::ios::app) << "another build";
  const Program a = start("1:2");
  expect(a, "joined 1,");
  const ProgramEnd end = run_program(host("1:2", {}, {other, "stay"}));
  EXPECT_EQ(end.code, 1);
  EXPECT_TRUE(has(end.err, "has another build of the program: " + other)) << end.err;
  const ProgramEnd arguments = run_program(host("1:2", {}, {kBin + "/launch_rank", "stay", "--model", "bert"}));
  EXPECT_EQ(arguments.code, 1);
  EXPECT_TRUE(has(arguments.err, "has the program's arguments 'stay --model bert', ")) << arguments.err;
  EXPECT_FALSE(has(a->err(), "bert")) << "the job is not disturbed";
}

TEST_F(Elastic, RefusesAWrongSecret) {
  const Program a = start("1:2", {}, {{"LOCKSTEP_SECRET", "5ec2e7000000000000000000000000b1"}});
  expect(a, "joined 1,");
  expect_end(start("1:2", {}, {{"LOCKSTEP_SECRET", "5ec2e7000000000000000000000000b2"}}), 1,
             "its secret is another one");
  EXPECT_EQ(a->err(), "");
}

TEST_F(Elastic, GivesUpOnAMasterThatNeverAnswers) {
  const auto [silent, port] = bound_socket();
  ASSERT_EQ(::listen(silent.get(), 8), 0);
  const ProgramEnd end =
      run({"--nnodes=1:2", "--rdzv-endpoint=127.0.0.1:" + port, "--rdzv-conf=join_timeout=0.5"}, {"true"});
  EXPECT_EQ(end.code, 1);
  EXPECT_TRUE(has(end.err, "it accepted the connection, but does not answer")) << end.err;
}

TEST_F(Elastic, EndsByCtrlCWhileItWaits) {
  RunningProgram a(host("2:3", {}, {"true"}), {{"LOCKSTEP_LOG_LEVEL", "info"}});
  ASSERT_TRUE(a.wait_for("1 of at least 2 hosts here", soon()));
  a.send(SIGINT);
  EXPECT_EQ(a.wait(soon()).signal, SIGINT);
}

using ElasticLong = Elastic;

// It waits for something that must not happen.
TEST_F(ElasticLong, IsNotMisledByClocks) {
  const Words other_time{"unshare", "--time", "--monotonic", "1000000", "--boottime", "1000000"};
  Words probe = other_time;
  probe.push_back("true");
  if (run_program(probe).code != 0) GTEST_SKIP() << "clocks of their own are not permitted here (unshare --time)";
  const Words flags{"--rdzv-backend=c10d", "--rdzv-conf=keep_alive_interval=0.5"};
  const Program a = start("2", flags);
  Words words = other_time;
  const Words command = host("2", flags, {kBin + "/launch_rank", "stay"});
  words.insert(words.end(), {"--fork", "--kill-child"});
  words.insert(words.end(), command.begin(), command.end());
  RunningProgram b(words);
  expect(a, "joined 2, restarts 0");
  // Longer than the silence after which a host counts as lost.
  EXPECT_FALSE(a->wait_for("lost", Deadline::after(std::chrono::seconds(3)))) << a->err();
}

// Seconds: a launcher that is lost counts as such after a time of silence.
TEST_F(Elastic, WaitsForAReplacementWhereTheNumberIsFixed) {
  const Words flags{"--rdzv-backend=c10d", "--max-restarts=1"};
  const Program a = start("2", flags);
  Program b = start("2", flags);
  expect(a, "joined 2,");
  expect(b, "joined 2,");
  const bool a_serves = has(a->out(), "node 0");
  (a_serves ? b : a)->send(SIGKILL);
  const Program& left = a_serves ? a : b;
  expect(left, "1 of at least 2 hosts here");
  const Program c = start("2", flags);
  expect(c, "rank 1: joined 2, restarts 0, node 1 of 2");
}

}  // namespace
}  // namespace lockstep
