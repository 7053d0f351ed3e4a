#include "lockstep/net/server/store_service.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace lockstep {
namespace {

using std::chrono::seconds;

// A service whose clock the test controls.
class StoreServiceTest : public ::testing::Test {
 protected:
  void join(ConnectionId connection, int rank, int world_size) {
    WireWriter request;
    request.u8(static_cast<std::uint8_t>(StoreOperation::Join));
    request.u64(1);
    request.i64(0);
    request.u32(static_cast<std::uint32_t>(world_size));
    write_peer(request, Peer{rank, "host", "id", 100 + rank, rank});
    service_.handle(connection, request.bytes(), now_);
  }
  void heartbeat(ConnectionId connection) {
    WireWriter request;
    request.u8(static_cast<std::uint8_t>(StoreOperation::Heartbeat));
    request.u64(0);
    service_.handle(connection, request.bytes(), now_);
  }
  std::vector<int> lost() const {
    std::vector<int> ranks;
    for (const LostRank& rank : service_.lost_ranks()) ranks.push_back(rank.rank);
    return ranks;
  }

  std::map<ConnectionId, int> answers_;
  StoreService service_{"test", [this](ConnectionId to, const std::string&) { ++answers_[to]; }};
  StoreService::Clock::time_point now_{seconds(1000)};
};

TEST_F(StoreServiceTest, SilentRanksAreLostUntilTheyAreHeard) {
  join(10, 0, 2);
  join(11, 1, 2);
  now_ += seconds(4);
  heartbeat(10);
  service_.check_heartbeats(now_, seconds(5));
  EXPECT_EQ(lost(), std::vector<int>{});
  now_ += seconds(3);
  service_.check_heartbeats(now_, seconds(5));
  EXPECT_EQ(lost(), std::vector<int>{1});
  EXPECT_EQ(service_.lost_ranks()[0].cause, "no heartbeat for 7.0 s");
  heartbeat(11);
  EXPECT_EQ(lost(), std::vector<int>{});
  EXPECT_EQ(answers_[11], 1);  // to its join; heartbeats are not answered
}

TEST_F(StoreServiceTest, APauseOfTheServerIsNoSilenceOfTheRanks) {
  join(10, 0, 2);
  join(11, 1, 2);
  now_ += seconds(3600);
  service_.forgive(seconds(3598));
  service_.check_heartbeats(now_, seconds(5));
  EXPECT_EQ(lost(), std::vector<int>{});
  now_ += seconds(4);
  service_.check_heartbeats(now_, seconds(5));
  EXPECT_EQ(lost(), (std::vector<int>{0, 1}));
}

TEST_F(StoreServiceTest, ASilentRankThatThenClosesStaysLostForThatCause) {
  join(10, 0, 1);
  now_ += seconds(10);
  service_.check_heartbeats(now_, seconds(5));
  service_.disconnected(10, "connection closed");
  ASSERT_EQ(service_.lost_ranks().size(), 1U);
  EXPECT_EQ(service_.lost_ranks()[0].cause, "connection closed");
  EXPECT_TRUE(service_.all_left());
}

TEST_F(StoreServiceTest, ARankThatIsReplacedBeforeTheOthersCameIsNotLost) {
  join(10, 1, 2);
  service_.disconnected(10, "connection closed");
  EXPECT_EQ(lost(), std::vector<int>{1});
  join(11, 1, 2);
  EXPECT_EQ(lost(), std::vector<int>{});
  join(12, 0, 2);
  EXPECT_EQ(answers_[11], 1);
  EXPECT_EQ(answers_[12], 1);
}

TEST_F(StoreServiceTest, ClientsThatNeverJoinAreNotWatched) {
  heartbeat(10);
  now_ += seconds(100);
  service_.check_heartbeats(now_, seconds(5));
  service_.disconnected(10, "connection closed");
  EXPECT_EQ(lost(), std::vector<int>{});
}

}  // namespace
}  // namespace lockstep
