#include "lockstep/net/worlds/world_member.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/failure_cause.h"
#include "lockstep/net/store/prefix_store.h"
#include "lockstep/net/store_errors.h"
#include "lockstep/net/thread_ranks.h"
#include "lockstep/net/worlds/world_agreement.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

// For what does not come in these tests; what comes is there already.
constexpr WorldPatience kPatience{milliseconds(100), milliseconds(20)};

// Each on a host of its own, so that one that is given up is not ended.
RankWorld world_of_hosts(std::int64_t number, const std::vector<int>& ranks) {
  RankWorld world;
  world.number = number;
  for (const int rank : ranks) {
    const std::string host = std::to_string(rank);
    world.members.push_back({rank, "host-" + host, "id-" + host, 100 + rank, 0});
  }
  return world;
}

struct NoLinks : WorldLinks {
  void disconnect() override { is_connected = false; }
  void connect(const RankWorld& world) override {
    EXPECT_FALSE(is_connected) << "members of the group before may still wait for this one";
    is_connected = true;
    connected = world;
  }
  std::optional<StoreMove> follow_store() override { return std::nullopt; }
  void end_process(int) override { ADD_FAILURE() << "the process is on another host"; }
  bool is_connected = true;
  RankWorld connected;
};

std::exception_ptr failure_of(FailureCause::Kind kind, int rank) {
  try {
    throw_caused(TimeoutError("a call took too long", "a test", "-"), {kind, rank});
  } catch (...) {
    return std::current_exception();
  }
}

std::exception_ptr timeout_of(int rank) { return failure_of(FailureCause::Kind::Timeout, rank); }

// Rank 1 stood still for longer than the timeout, and was back before anyone had proposed to continue without it.
TEST(WorldMemberTest, HoldsNothingAgainstAMemberThatHasConnectedSince) {
  const auto store = std::make_shared<MemoryStore>();
  const RankWorld first = world_of_hosts(0, {0, 1, 2}), second = world_of_hosts(1, {0, 1});
  WorldAgreement one(std::make_shared<PrefixStore>(store, "worlds"), first.members[1]);
  store->mark_lost(2, "killed");
  ASSERT_EQ(one.next(first, false, false, Deadline::after(std::chrono::seconds(5))).number, 1);
  // It is ready for the worlds that follow.
  for (const int number : {1, 2}) one.meet(world_of_hosts(number, {0, 1}), Deadline::after(milliseconds(0)));
  NoLinks links;
  WorldMember zero(store, first.members[0], first, kPatience, links);
  zero.recover(timeout_of(1));
  ASSERT_EQ(encode(links.connected), encode(second));
  zero.admit();
  EXPECT_EQ(encode(links.connected), encode(world_of_hosts(2, {0, 1})));
}

TEST(WorldMemberTest, ContinuesAtOnceWithoutTheOneThatIsBlamed) {
  const auto store = std::make_shared<MemoryStore>();
  const RankWorld first = world_of_hosts(0, {0, 1, 2}), second = world_of_hosts(1, {0, 2});
  WorldAgreement two(std::make_shared<PrefixStore>(store, "worlds"), first.members[2]);
  two.meet(second, Deadline::after(milliseconds(0)));
  NoLinks links;
  WorldMember zero(store, first.members[0], first, kPatience, links);
  zero.recover(timeout_of(1));
  EXPECT_EQ(encode(links.connected), encode(second));
}

// Ranks 0 and 1, which live.
struct TwoMembers {
  // A call timed out although both were in it: what one had sent did not arrive. Rank 1 is ready for the next world.
  void recover_in(const RankWorld& next) {
    one.meet(next, Deadline::after(milliseconds(0)));
    zero.recover(timeout_of(-1));
  }
  const std::shared_ptr<MemoryStore> store = std::make_shared<MemoryStore>();
  const RankWorld first = world_of_hosts(0, {0, 1});
  WorldAgreement one{std::make_shared<PrefixStore>(store, "worlds"), first.members[1]};
  NoLinks links;
  WorldMember zero{store, first.members[0], first, kPatience, links};
};

TEST(WorldMemberTest, ConnectsAnewIfNobodyIsLost) {
  TwoMembers ranks;
  for (int step = 1; step <= 2 * WorldMember::kMostRepeats; ++step) {
    const RankWorld same = world_of_hosts(step, {0, 1});
    ranks.recover_in(same);
    EXPECT_EQ(encode(ranks.links.connected), encode(same));
    ranks.zero.has_advanced();
  }
}

TEST(WorldMemberTest, EndsIfConnectingAnewDoesNotHelp) {
  TwoMembers ranks;
  for (int attempt = 1; attempt <= WorldMember::kMostRepeats; ++attempt) {
    ranks.recover_in(world_of_hosts(attempt, {0, 1}));
  }
  EXPECT_THROW(ranks.zero.recover(timeout_of(-1)), TimeoutError);
}

// That rank has a reason of its own, which a new connection does not change.
TEST(WorldMemberTest, EndsIfARankThatIsNotLostEndedTheGroup) {
  TwoMembers ranks;
  EXPECT_THROW(ranks.zero.recover(failure_of(FailureCause::Kind::AbortedByPeer, 1)), TimeoutError);
}

// The launcher tells at once where the store is now.
struct MovingLinks : NoLinks {
  explicit MovingLinks(std::set<int> members) : roll(std::move(members)) {}
  std::optional<StoreMove> follow_store() override {
    is_lost = false;
    return StoreMove{1, roll, ""};
  }
  void end_process(int pid) override { ended.push_back(pid); }
  std::set<int> roll;
  bool is_lost = true;
  std::vector<int> ended;
};

struct LostStore : MemoryStore {
  explicit LostStore(const MovingLinks& links) : links_(links) {}
  std::optional<std::string> try_get(const std::string& key) override {
    if (links_.is_lost) throw StoreLostError("the store is lost", "a test", "-");
    return MemoryStore::try_get(key);
  }
  const MovingLinks& links_;
};

TEST(WorldMemberTest, EndsAProcessOfItsHostThatDoesNotArriveAtTheNewStore) {
  RankWorld first = world_of_hosts(0, {0, 1, 2});
  first.members[1].host_id = first.members[0].host_id;
  MovingLinks links({0, 1, 2});
  WorldMember zero(std::make_shared<LostStore>(links), first.members[0], first, kPatience, links);
  zero.recover(timeout_of(-1));
  EXPECT_EQ(links.ended, std::vector<int>{101}) << "rank 2 is on another host";
  EXPECT_EQ(encode(links.connected), encode(world_of_hosts(first_number_of(1), {0})));
}

TEST(WorldMemberTest, FollowsTheStoreThatIsLostWhileItLetsOthersIn) {
  const RankWorld first = world_of_hosts(0, {0});
  MovingLinks links({0});
  WorldMember zero(std::make_shared<LostStore>(links), first.members[0], first, kPatience, links);
  zero.admit();
  EXPECT_EQ(encode(links.connected), encode(world_of_hosts(first_number_of(1), {0})));
}

}  // namespace
}  // namespace lockstep
