// Which report of several nodes counts.
#include "lockstep/launch/nodes/static_nodes.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <functional>
#include <memory>
#include <thread>

#include "lockstep/launch/nodes/free_port.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// The launchers of two nodes, as two objects of this process, after they have agreed to start their ranks.
class TwoNodes : public ::testing::Test {
 protected:
  TwoNodes() {
    at_once(
        [this](int node) { nodes_.at(static_cast<std::size_t>(node)) = std::make_unique<StaticNodes>(plan(node)); });
    at_once([this](int node) { node_of(node).agree(); });
  }
  ~TwoNodes() override { nodes_[1].reset(); }  // before the one that serves the store

  StaticNodes& node_of(int node) { return *nodes_.at(static_cast<std::size_t>(node)); }

  bool has_outcome_within(int node, milliseconds time) {
    pollfd signal{node_of(node).outcome().fd(), POLLIN, 0};
    return ::poll(&signal, 1, static_cast<int>(time.count())) == 1;
  }
  // Without the line that announces a restart.
  std::string story_at(int node) {
    if (!has_outcome_within(node, seconds(60))) return "no outcome";
    const std::string story = node_of(node).outcome().get()->story;
    return story.substr(0, story.find('\n'));
  }

 private:
  static void at_once(const std::function<void(int)>& body) {
    std::thread other([&] { body(1); });
    body(0);
    other.join();
  }
  const LaunchPlan& plan(int node) {
    LaunchPlan& plan = plans_.at(static_cast<std::size_t>(node));
    plan.nodes = plan.min_nodes = 2;
    plan.node_rank = node;
    plan.master_addr = "127.0.0.1";
    plan.master_port = port_.number();
    plan.join_timeout = seconds(60);
    plan.monitor_interval = milliseconds(100);
    plan.run_id = "none";
    plan.max_restarts = 3;
    plan.role = "default";
    plan.command = {"./train"};
    return plan;
  }

  const HeldPort port_;
  std::array<LaunchPlan, 2> plans_;
  std::array<std::unique_ptr<StaticNodes>, 2> nodes_;
};

TEST_F(TwoNodes, ACauseOnAnotherNodePrecedesAConsequenceThatWasReportedFirst) {
  node_of(1).report_failure({"rank 1 lost rank 0", /*blames_a_peer=*/true});
  EXPECT_FALSE(has_outcome_within(0, milliseconds(200))) << "the consequence was reported at once";
  node_of(0).report_failure({"rank 0 failed by itself"});
  EXPECT_EQ(story_at(0), "rank 0 failed by itself");
  EXPECT_EQ(story_at(1), "rank 0 failed by itself");
}

// Takes 2 s: so long a node waits for a cause from another one.
TEST_F(TwoNodes, AConsequenceCountsIfNoNodeReportsACause) {
  node_of(1).report_failure({"rank 1 lost rank 0", /*blames_a_peer=*/true});
  EXPECT_EQ(story_at(0), "rank 1 lost rank 0");
  EXPECT_EQ(story_at(1), "rank 1 lost rank 0");
}

// A signal is not kept waiting behind a report that gives others precedence.
TEST_F(TwoNodes, ALauncherThatIsToldToEndReportsThatAtOnce) {
  node_of(1).report_failure({"rank 1 lost rank 0", /*blames_a_peer=*/true});
  node_of(1).report_leaving("the launcher of node 1 was told to end");
  EXPECT_EQ(story_at(0), "the launcher of node 1 was told to end");
  EXPECT_EQ(story_at(1), "the launcher of node 1 was told to end");
}

TEST_F(TwoNodes, TheFirstOfTwoCausesCounts) {
  node_of(0).report_failure({"rank 0 failed by itself"});
  EXPECT_EQ(story_at(1), "rank 0 failed by itself");
  node_of(1).report_failure({"rank 1 failed by itself"});
  EXPECT_EQ(story_at(0), "rank 0 failed by itself");
}

TEST_F(TwoNodes, RanksThatWouldFailAlikeAreNotStartedAgain) {
  node_of(1).report_failure({"rank 1 refused its arguments", false, /*recurs=*/true});
  EXPECT_EQ(story_at(0), "rank 1 refused its arguments");
  EXPECT_TRUE(node_of(0).outcome().get()->is_final);
}

}  // namespace
}  // namespace lockstep
