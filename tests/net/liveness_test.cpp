#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/base/processor/topology.h"
#include "lockstep/net/server/store_server.h"
#include "lockstep/net/store/store_client.h"
#include "tests/net/child_process.h"
#include "tests/net/net_fixtures.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using testing::ChildProcess;
using testing::eventually;
using testing::kSecret;
using testing::patience;

JoinRequest as_rank(int rank, int world_size, std::int64_t generation = 0) {
  return {generation, world_size, Peer{rank, host_name(), host_id(), ::getpid(), rank}};
}

StoreClientOptions quick_heartbeats() {
  StoreClientOptions options;
  options.heartbeat_interval = milliseconds(50);
  return options;
}

// Joins as a rank and stays until it is killed, or leaves in the way that `how` names.
int rank_that(const std::vector<std::string>& arguments) {
  const std::string& how = arguments.at(3);
  StoreClient client(SocketAddress::parse(arguments.at(0)), kSecret, patience(), quick_heartbeats());
  client.join(as_rank(std::stoi(arguments.at(1)), std::stoi(arguments.at(2))), patience());
  if (how == "finishes") client.finish(patience());
  if (how == "exits") ::_exit(3);
  client.wait({"end"}, patience());
  return 0;
}
const testing::RegisterChildRole kRankThat("rank_that", rank_that);

struct Transport {
  const char* name;
  bool tcp;
  friend std::ostream& operator<<(std::ostream& out, const Transport& transport) { return out << transport.name; }
};

class Liveness : public ::testing::TestWithParam<Transport> {
 protected:
  void start_server(milliseconds heartbeat_timeout) {
    StoreServerOptions options;
    options.heartbeat_timeout = heartbeat_timeout;
    server_ = std::make_unique<StoreServer>(
        GetParam().tcp ? SocketAddress::tcp("127.0.0.1", 0) : SocketAddress::unix_socket(folder_ / "store"), kSecret,
        options);
  }
  // This process is rank 0; all other ranks are `children`, already started.
  void join_as_rank_0(int world_size) {
    client_ = std::make_unique<StoreClient>(server_->address(), kSecret, patience(), quick_heartbeats());
    client_->join(as_rank(0, world_size), patience());
  }
  std::unique_ptr<ChildProcess> child(int rank, int world_size, const std::string& how) {
    return std::make_unique<ChildProcess>(
        "rank_that",
        std::vector<std::string>{server_->address().text(), std::to_string(rank), std::to_string(world_size), how});
  }
  // This process may be listed, too, if the machine let it wait.
  std::optional<LostRank> lost(int rank) {
    for (const LostRank& each : client_->lost_ranks()) {
      if (each.rank == rank) return each;
    }
    return std::nullopt;
  }

  TemporaryFolder folder_;
  std::unique_ptr<StoreServer> server_;
  std::unique_ptr<StoreClient> client_;
};

TEST_P(Liveness, AKilledRankIsLost) {
  start_server(std::chrono::minutes(10));
  const auto first = child(1, 3, "stays");
  const auto second = child(2, 3, "stays");
  join_as_rank_0(3);
  EXPECT_TRUE(client_->lost_ranks().empty());
  second->signal(SIGKILL);
  ASSERT_TRUE(eventually([this] { return !client_->lost_ranks().empty(); }));
  const auto lost = client_->lost_ranks();
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_EQ(lost[0].rank, 2);
  EXPECT_EQ(lost[0].host, host_name());
  EXPECT_FALSE(lost[0].cause.empty());
  EXPECT_FALSE(lost[0].silent);
  first->signal(SIGKILL);
  ASSERT_TRUE(eventually([this] { return client_->lost_ranks().size() == 2; }));
  EXPECT_EQ(server_->lost_ranks().at(1).rank, 1);
}

TEST_P(Liveness, AnExitWithoutGoodbyeIsALossAndAGoodbyeIsNone) {
  start_server(std::chrono::minutes(10));
  const auto leaver = child(1, 3, "finishes");
  const auto exiter = child(2, 3, "exits");
  join_as_rank_0(3);
  EXPECT_EQ(exiter->wait(), 3);
  ASSERT_TRUE(eventually([this] { return !client_->lost_ranks().empty(); }));
  EXPECT_NE(leaver->wait(), 0);  // after it has left, its wait is an error
  ASSERT_EQ(client_->lost_ranks().size(), 1U);
  EXPECT_EQ(client_->lost_ranks()[0].rank, 2);
}

TEST_P(Liveness, AStoppedRankIsLostUntilItGoesOn) {
  start_server(milliseconds(600));
  const auto stopped = child(1, 2, "stays");
  join_as_rank_0(2);
  stopped->signal(SIGSTOP);
  ASSERT_TRUE(eventually([this] { return lost(1).has_value(); }));
  const LostRank silent = lost(1).value();
  EXPECT_NE(silent.cause.find("no heartbeat for"), std::string::npos);
  EXPECT_TRUE(silent.silent);
  stopped->signal(SIGCONT);
  EXPECT_TRUE(eventually([this] { return !lost(1).has_value(); }));
  client_->set("end", "");
  EXPECT_EQ(stopped->wait(), 0);
}

TEST_P(Liveness, ATimeoutTellsWhoWasLost) {
  start_server(std::chrono::minutes(10));
  const auto killed = child(1, 2, "stays");
  join_as_rank_0(2);
  killed->signal(SIGKILL);
  ASSERT_TRUE(eventually([this] { return !client_->lost_ranks().empty(); }));
  const std::string text =
      testing::error_of<TimeoutError>([this] { client_->get("from rank 1", Deadline::after(milliseconds(20))); });
  EXPECT_NE(text.find("lost meanwhile: rank 1 on " + host_name()), std::string::npos) << text;
}

INSTANTIATE_TEST_SUITE_P(Transports, Liveness, ::testing::Values(Transport{"Unix", false}, Transport{"Tcp", true}),
                         [](const auto& test) { return test.param.name; });

TEST(LivenessTest, WaitingForAllToLeaveEndsWithTheLastOrAtTheDeadline) {
  StoreServer server(SocketAddress::tcp("127.0.0.1", 0), kSecret);
  EXPECT_TRUE(server.wait_until_left(patience()));
  auto first = std::make_unique<StoreClient>(server.address(), kSecret, patience());
  auto second = std::make_unique<StoreClient>(server.address(), kSecret, patience());
  std::thread other([&] { second->join(as_rank(1, 2), patience()); });
  first->join(as_rank(0, 2), patience());
  other.join();
  first->finish(patience());
  EXPECT_FALSE(server.wait_until_left(Deadline::after(milliseconds(20))));
  std::thread waiter([&] { EXPECT_TRUE(server.wait_until_left(patience())); });
  second.reset();  // a loss ends the wait as leaving does
  waiter.join();
  EXPECT_TRUE(eventually([&] { return server.lost_ranks().size() == 1; }));
}

TEST(LivenessTest, GenerationsDoNotSeeEachOthersLosses) {
  StoreServer server(SocketAddress::tcp("127.0.0.1", 0), kSecret);
  auto before = std::make_unique<StoreClient>(server.address(), kSecret, patience());
  before->join(as_rank(0, 1, 0), patience());
  before.reset();
  ASSERT_TRUE(eventually([&] { return server.lost_ranks().size() == 1; }));
  StoreClient restarted(server.address(), kSecret, patience());
  restarted.join(as_rank(0, 1, 1), patience());
  EXPECT_TRUE(restarted.lost_ranks().empty());
  EXPECT_TRUE(server.lost_ranks().empty());  // of the newest generation
  server.mark_lost(1, {3, "host-b", "killed by signal 9"});
  ASSERT_EQ(restarted.lost_ranks().size(), 1U);
  EXPECT_EQ(restarted.lost_ranks()[0].cause, "killed by signal 9");
}

}  // namespace
}  // namespace lockstep
