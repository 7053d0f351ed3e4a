// A launcher of a job whose hosts come and go, and the one that serves it, which this test plays.
#include "lockstep/launch/elastic/elastic_nodes.h"

#include <gtest/gtest.h>

#include <fstream>
#include <future>
#include <memory>

#include "lockstep/launch/nodes/free_port.h"
#include "lockstep/launch/nodes/job_sign.h"
#include "tests/launch/message_kinds.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using std::chrono::seconds;

Deadline soon() { return Deadline::after(seconds(60)); }

// A host that serves a job's store, and what its coordinator hears and says.
class ServingHost {
 public:
  explicit ServingHost(const LaunchPlan& plan) : entry_(HostEntry::of(plan)) { sign_store(client_, entry_); }

  std::uint16_t port() const { return server_.address().port; }
  Generation::Host place() const { return {entry_.id, "serving", 1, server_.address().text()}; }
  HostReport next_report() {
    return parse_report(client_.get(std::string(kReportQueue) + "/" + std::to_string(++heard_), soon()));
  }
  void order(const std::string& host, const HostOrder& order) { client_.push(order_queue(host), to_text(order)); }

 private:
  HostEntry entry_;
  StoreServer server_{SocketAddress::tcp("127.0.0.1", 0), ""};
  StoreClient client_{server_.address(), "", soon()};
  std::int64_t heard_ = 0;
};

// The third host of a job; the second one is next to serve.
class ThirdHost : public ::testing::Test {
 protected:
  ThirdHost() {
    plan_.nodes = 3;
    plan_.node_ranks = NodeRanks::ByArrival;
    plan_.master_addr = "127.0.0.1";
    plan_.serves_store = false;
    plan_.join_timeout = seconds(60);
    plan_.keep_alive = seconds(60);
    plan_.monitor_interval = std::chrono::milliseconds(100);
    plan_.run_id = "none";
    plan_.role = "default";
    plan_.command = {"./train"};
    lost_ = std::make_unique<ServingHost>(plan_);
    next_ = std::make_unique<ServingHost>(plan_);
    plan_.master_port = lost_->port();
    nodes_ = std::make_unique<ElasticNodes>(plan_, folder_ / "store-now");
    auto agreement = std::async(std::launch::async, [this] { return nodes_->agree(); });
    self_ = lost_->next_report().entry;
    lost_->order(self_.id, begin());
    EXPECT_EQ(agreement.get().first_rank, 2);
  }

  HostOrder begin() const {
    HostOrder order = order_to(Order::Begin);
    order.generation.number = 4;
    order.generation.restarts = 2;
    order.generation.hosts = {lost_->place(), next_->place(), {self_.id, "self", 1, self_.standby}};
    order.generation.next_member = 3;
    return order;
  }
  HostReport::Ranks answer() {
    lost_->order(self_.id, order_to(Order::Tell));
    const HostReport report = lost_->next_report();
    EXPECT_EQ(report.kind, Report::Answers);
    EXPECT_EQ(report.generation, 4);
    return report.ranks;
  }
  HostReport resumed() {
    lost_.reset();
    HostReport report = next_->next_report();
    EXPECT_EQ(report.kind, Report::Resumes);
    EXPECT_EQ(report.host, self_.id);
    EXPECT_TRUE(report.runs);
    return report;
  }

  const TemporaryFolder folder_;
  LaunchPlan plan_;
  std::unique_ptr<ServingHost> lost_, next_;
  std::unique_ptr<ElasticNodes> nodes_;
  HostEntry self_;
};

TEST_F(ThirdHost, TellsThatItsRanksSurviveOnceAllHaveAnnouncedIt) {
  EXPECT_FALSE(answer().survive) << "its ranks have not started";
  nodes_->await_survival({folder_ / "rank1", folder_ / "rank2"});
  std::ofstream(folder_ / "rank1");
  EXPECT_FALSE(answer().survive) << "one of two has announced it";
  std::ofstream(folder_ / "rank2");
  EXPECT_TRUE(answer().survive);
}

// The event loop has not looked for announcements yet.
TEST_F(ThirdHost, TellsTheNextHostWhatItsRanksHaveAnnounced) {
  std::ofstream(folder_ / "rank");
  nodes_->await_survival({folder_ / "rank"});
  const HostReport report = resumed();
  EXPECT_TRUE(report.ranks.survive);
  EXPECT_FALSE(report.ranks.has_no_ranks);
  EXPECT_EQ(report.generation, 4);
  EXPECT_EQ(report.ranks.members, std::vector<int>{2});
}

// The order that lets it in has arrived, and the launcher has not started its ranks yet.
TEST_F(ThirdHost, ResumesInTheWorldThatHasJustLetItIn) {
  HostOrder order = begin();
  order.generation.first_member = 7;
  order.generation.next_member = 8;
  order.generation.era = 2;
  lost_->order(self_.id, order);
  EXPECT_TRUE(answer().survive) << "its ranks join those that do";
  const HostReport report = resumed();
  EXPECT_TRUE(report.ranks.survive);
  EXPECT_TRUE(report.ranks.has_no_ranks);
  EXPECT_EQ(report.ranks.era, 2) << "two stores were lost before";
  EXPECT_EQ(report.ranks.next_member, 8);
  EXPECT_EQ(report.ranks.members, std::vector<int>{7});
}

// Its ranks live on until the serving host has told it to join again, for which that one may have no time.
TEST_F(ThirdHost, GoesOnIfTheHostEndsThatTookItForLost) {
  lost_->order(self_.id, order_to(Order::Return));
  EXPECT_EQ(lost_->next_report().kind, Report::Returns);
  EXPECT_FALSE(nodes_->outcome().get());
  resumed();
  EXPECT_FALSE(nodes_->outcome().get());
}

}  // namespace
}  // namespace lockstep
