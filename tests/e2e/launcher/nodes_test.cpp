// Tests `lockstep run` on several nodes, which several launchers on this host represent.
#include <gtest/gtest.h>
#include <signal.h>

#include "lockstep/base/processor/topology.h"
#include "lockstep/net/store/store_client.h"
#include "tests/e2e/launch.h"

namespace lockstep {
namespace {

// Two launchers on this host represent two nodes.
class Nodes : public ::testing::Test {
 protected:
  Words node(int rank, const Words& flags, const Words& program) const {
    Words all{"--nnodes=2", "--node-rank=" + std::to_string(rank), "--master-port", port_.text()};
    all.insert(all.end(), flags.begin(), flags.end());
    return launch(all, program);
  }
  const LoopbackPort port_;
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

TEST_F(Nodes, GetTheirRankByArrivalFromC10d) {
  const Words flags{"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:" + port_.text(), "--rdzv-id=x"};
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

// Without a secret, any process that reaches the port may write to the store.
TEST_F(Nodes, SayWhatAStrangerWroteIntoTheirStore) {
  const Words program{"sleep", "300"};
  RunningProgram second(node(1, {}, program));
  RunningProgram first(node(0, {}, program));
  {
    StoreClient stranger(SocketAddress::parse("tcp:127.0.0.1:" + port_.text()), "", soon());
    for (const char* ready : {"launcher/attempt/0/ready/0/1", "launcher/attempt/0/ready/1/1"})
      stranger.get(ready, soon());
    stranger.set("launcher/attempt/0/outcome/1", "over\x1b[31m");
    stranger.finish(soon());
  }
  for (const ProgramEnd& end : {first.wait(soon()), second.wait(soon())}) {
    EXPECT_EQ(end.code, 1);
    EXPECT_TRUE(has(end.err, "holds what no launcher of this version wrote: \"over\\x1b[31m\"")) << end.err;
    EXPECT_TRUE(has(end.err, "LOCKSTEP_SECRET")) << end.err;
    EXPECT_FALSE(has(end.err, "is lost")) << end.err;
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
  // In attempt 0 a rank may be ended before it prints.
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

// Each round waits for the end of the silence.
TEST_F(Nodes, EndWhereALauncherStandsStill) {
  const Words soon_lost{"--rdzv-conf=keep_alive_interval=1"};
  for (const bool stop_first : {true, false}) {
    RunningProgram second(node(1, soon_lost, shell("echo rank=$$; exec sleep 300")));
    RunningProgram first(node(0, soon_lost, shell("echo rank=$$; exec sleep 300")));
    ASSERT_TRUE(first.wait_for("rank=", soon()));
    ASSERT_TRUE(second.wait_for("rank=", soon()));
    (stop_first ? first : second).send(SIGSTOP);
    const ProgramEnd end = (stop_first ? second : first).wait(soon());
    EXPECT_EQ(end.code, 1);
    EXPECT_TRUE(has(end.err, stop_first ? "the launcher of node 0, which serves the job's store, is lost: "
                                        : "the launcher of node 1 on "))
        << end.err;
    EXPECT_TRUE(stop_first || has(end.err, " is lost: not heard of for 2.0 s")) << end.err;
  }
}

TEST_F(Nodes, AreEndedBySignalsWhereNode0StandsStill) {
  RunningProgram second(node(1, {}, shell("echo rank=$$; exec sleep 300")));
  RunningProgram first(node(0, {}, shell("echo rank=$$; exec sleep 300")));
  ASSERT_TRUE(first.wait_for("rank=", soon()));
  ASSERT_TRUE(second.wait_for("rank=", soon()));
  first.send(SIGSTOP);
  second.send(SIGTERM);
  // Its ranks end; then it tells node 0 that it leaves, which does not read it.
  for (const pid_t pid : pids_after(second.out(), "rank")) EXPECT_TRUE(wait_until_gone(pid, soon()));
  second.send(SIGHUP);
  const ProgramEnd end = second.wait(soon());
  EXPECT_EQ(end.code, 128 + SIGTERM) << end.err;
  for (const pid_t pid : pids_after(second.out(), "rank")) EXPECT_TRUE(wait_until_gone(pid, soon()));
}

TEST_F(Nodes, AreNamedIfTheyDoNotCome) {
  const ProgramEnd end = run({"--nnodes=2", "--master-port", port_.text(), "--rdzv-conf=timeout=0.5"}, {"true"});
  EXPECT_EQ(end.code, 1);
  EXPECT_TRUE(has(end.err, "node 1 of 2 did not join within 0.5 s")) << end.err;
}

// Seconds: launchers tell once a second who is missing.
TEST_F(Nodes, SayWhoIsMissingWhileTheyWait) {
  const auto four = [&](const std::string& rank) {
    return launch({"--nnodes=4", "--node-rank=" + rank, "--master-port", port_.text()}, {"true"});
  };
  RunningProgram second(four("1"));
  ASSERT_TRUE(second.wait_for("waiting for the launcher of node 0, which is to serve at tcp:127.0.0.1:" + port_.text(),
                              soon()));
  EXPECT_TRUE(has(second.err(), "(pid " + std::to_string(second.pid()) + "): waiting for")) << second.err();
  RunningProgram first(four("0"));
  ASSERT_TRUE(first.wait_for("waiting for nodes 2, 3 of 4; ", soon()));
  ASSERT_TRUE(first.wait_for(" s left\n", soon()));
}

// Seconds: launchers tell once a second who is missing.
TEST_F(Nodes, MayStartAgainBeforeAllAreThere) {
  const auto three = [&](int rank, int local_ranks) {
    return launch({"--nnodes=3", "--node-rank=" + std::to_string(rank),
                   "--nproc-per-node=" + std::to_string(local_ranks), "--master-port", port_.text()},
                  {kBin + "/launch_rank", "meet"});
  };
  RunningProgram first(three(0, 1));
  ASSERT_TRUE(first.wait_for("waiting for nodes 1, 2 of 3; ", soon())) << first.err();
  {
    RunningProgram second(three(1, 1));
    ASSERT_TRUE(second.wait_for("waiting for node 2 of 3; ", soon())) << second.err();
    second.send(SIGINT);
    second.wait(soon());
  }
  RunningProgram again(three(1, 2));
  ASSERT_TRUE(again.wait_for("waiting for node 2 of 3; ", soon())) << again.err();
  RunningProgram third(three(2, 1));
  for (RunningProgram* program : {&first, &again, &third}) {
    const ProgramEnd end = program->wait(soon());
    EXPECT_EQ(end.code, 0) << end.err;
    EXPECT_TRUE(has(end.out, ": met 4 of 4\n")) << end.out;
  }
}

TEST_F(Nodes, NameOneThatEndedBeforeAllWereThere) {
  const auto three = [&](int rank) {
    return launch({"--nnodes=3", "--node-rank=" + std::to_string(rank), "--master-port", port_.text()}, {"true"});
  };
  RunningProgram first(three(0));
  RunningProgram second(three(1));
  ASSERT_TRUE(second.wait_for("waiting for node 2 of 3; ", soon())) << second.err();
  const std::string pid = std::to_string(second.pid());
  second.send(SIGKILL);
  second.wait(soon());
  RunningProgram third(three(2));
  const ProgramEnd end = first.wait(soon());
  EXPECT_EQ(end.code, 1);
  EXPECT_TRUE(
      has(end.err, "the launcher of node 1 on " + host_name() + " (pid " + pid + ") ended before all nodes had joined"))
      << end.err;
  EXPECT_EQ(third.wait(soon()).code, 1);
}

TEST_F(Nodes, RefuseAnotherJobOnTheirPort) {
  const Words one{"--rdzv-id=one"};
  const Words two{"--rdzv-id=two"};
  RunningProgram first(node(0, one, {kBin + "/launch_rank", "meet"}));
  ASSERT_TRUE(first.wait_for("waiting for node 1 of 2", soon())) << first.err();
  // Both nodes of another job while this one is incomplete, and an elastic one.
  const ProgramEnd server = run_program(node(0, two, {"true"}));
  EXPECT_EQ(server.code, 1);
  const std::string owner =
      " is served there, by the launcher on " + host_name() + " (pid " + std::to_string(first.pid()) + ")";
  EXPECT_TRUE(has(server.err, ": job 'one' (" + kBin + "/launch_rank)" + owner)) << server.err;
  EXPECT_TRUE(has(server.err, "give each job an endpoint of its own")) << server.err;
  const ProgramEnd other = run_program(node(1, two, {"true"}));
  EXPECT_EQ(other.code, 1);
  EXPECT_TRUE(has(other.err, ") has --rdzv-id two, ")) << other.err;
  const ProgramEnd elastic = run({"--nnodes=1:2", "--rdzv-endpoint=127.0.0.1:" + port_.text(), "--rdzv-id=one"},
                                 {kBin + "/launch_rank", "meet"});
  EXPECT_EQ(elastic.code, 1);
  EXPECT_TRUE(has(elastic.err, ") has --rdzv-backend c10d without --node-rank, ")) << elastic.err;
  RunningProgram second(node(1, one, {kBin + "/launch_rank", "meet"}));
  EXPECT_EQ(second.wait(soon()).code, 0);
  EXPECT_EQ(first.wait(soon()).code, 0) << "undisturbed";
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
  EXPECT_TRUE(has(first.err() + end.err, "has --max-restarts ")) << first.err() << end.err;
}

TEST_F(Nodes, NeedASecretBeyondThisHost) {
  const ProgramEnd end = run({"--nnodes=2", "--master-addr=0.0.0.0", "--master-port", port_.text()}, {"true"},
                             {{"LOCKSTEP_SECRET", {}}, {"LOCKSTEP_SECRET_FILE", {}}});
  EXPECT_EQ(end.code, 1);
  EXPECT_TRUE(has(end.err, "LOCKSTEP_SECRET")) << end.err;
}

}  // namespace
}  // namespace lockstep
