#include "lockstep/net/worlds/world.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/net/store/store_protocol.h"
#include "lockstep/net/store/wire.h"
#include "lockstep/net/thread_ranks.h"
#include "lockstep/net/worlds/world_agreement.h"

namespace lockstep {
namespace {

using StepKind = WorldStep::Kind;

RankWorld world_with(std::int64_t number, const std::vector<int>& ranks) {
  RankWorld world;
  world.number = number;
  for (const int rank : ranks) world.members.push_back({rank, "host-a", "id-a", 100 + rank, rank});
  return world;
}

std::vector<int> ranks_of(const RankWorld& world) {
  std::vector<int> ranks;
  for (const Peer& peer : world.members) ranks.push_back(peer.global_rank);
  return ranks;
}

TEST(NextStep, WaitsWhileNothingHasChanged) {
  EXPECT_EQ(next_step({world_with(0, {0, 1}), {}, {}, {}, false, false}).kind, StepKind::Wait);
  EXPECT_EQ(next_step({world_with(0, {0, 1}), {}, {5}, {}, false, false}).kind, StepKind::Wait)
      << "rank 5 is not a member";
}

TEST(NextStep, ProposesThoseThatAreLeftInTheirOrder) {
  const WorldStep step = next_step({world_with(3, {4, 0, 2}), {}, {0}, {}, false, false});
  EXPECT_EQ(step.kind, StepKind::Propose);
  EXPECT_EQ(step.world.number, 4);
  EXPECT_EQ(ranks_of(step.world), (std::vector<int>{4, 2}));
}

TEST(NextStep, LetsOthersInOnlyIfAllMembersHaveAgreed) {
  WorldView view{world_with(0, {0, 1}), {}, {1, 8}, world_with(0, {7, 8, 0}).members, false, false};
  EXPECT_EQ(ranks_of(next_step(view).world), (std::vector<int>{0}));
  view.admits = true;
  EXPECT_EQ(ranks_of(next_step(view).world), (std::vector<int>{0, 7})) << "8 is lost, and 0 is a member";
}

TEST(NextStep, LetsNoMoreInThanTheWorldMayHave) {
  WorldView view{world_with(0, {0, 1, 2}), {}, {1}, world_with(0, {7, 8, 9}).members, true, false, 4};
  EXPECT_EQ(ranks_of(next_step(view).world), (std::vector<int>{0, 2, 7, 8})) << "9 waits until one is lost";
}

TEST(NextStep, AdoptsWhatIsStoredWhateverItKnowsItself) {
  const WorldStep step = next_step({world_with(0, {0, 1, 2}), world_with(1, {0, 1}), {1}, {}, true, true});
  EXPECT_EQ(step.kind, StepKind::Adopt);
  EXPECT_EQ(ranks_of(step.world), (std::vector<int>{0, 1}));
}

TEST(WorldText, IsReadBack) {
  const RankWorld world = decode_world(encode(world_with(6, {3, 9})));
  EXPECT_EQ(world.number, 6);
  EXPECT_EQ(ranks_of(world), (std::vector<int>{3, 9}));
  EXPECT_EQ(world.members[1].host, "host-a");
  EXPECT_EQ(world.members[1].pid, 109);
  EXPECT_THROW(decode_world("no world"), Error);
  EXPECT_THROW(decode_world(encode(world_with(6, {3, 9})) + "x"), Error);
}

TEST(WorldAgreementTest, ProcessesThatLeftAreNotAwaited) {
  auto store = std::make_shared<MemoryStore>();
  const RankWorld first = world_with(0, {0, 1, 2});
  WorldAgreement zero(store, first.members[0]), one(store, first.members[1]), two(store, first.members[2]);
  two.leave();
  one.leave();
  const RankWorld next = zero.next(first, false, false, Deadline::after(std::chrono::seconds(5)));
  EXPECT_EQ(ranks_of(next), (std::vector<int>{0}));
  EXPECT_TRUE(zero.meet(next, Deadline::after(std::chrono::seconds(5))).is_complete);
  EXPECT_THROW(one.next(first, false, false, Deadline::after(std::chrono::seconds(5))), Error) << "it is not a member";
}

TEST(WorldAgreementTest, NamesThoseThatDoNotArrive) {
  auto store = std::make_shared<MemoryStore>();
  const RankWorld first = world_with(0, {0, 1, 2});
  WorldAgreement zero(store, first.members[0]), one(store, first.members[1]);
  const WorldMeeting alone = one.meet(first, Deadline::after(std::chrono::milliseconds(0)));
  EXPECT_FALSE(alone.is_complete);
  EXPECT_EQ(ranks_of({0, alone.late}), (std::vector<int>{0, 2}));
  const WorldMeeting meeting = zero.meet(first, Deadline::after(std::chrono::milliseconds(0)));
  EXPECT_EQ(ranks_of({0, meeting.late}), (std::vector<int>{2}));
  zero.give_up(2);
  const RankWorld next = zero.next(first, false, false, Deadline::after(std::chrono::seconds(5)));
  EXPECT_EQ(ranks_of(next), (std::vector<int>{0, 1}));
}

TEST(WorldAgreementTest, AMemberThatConnectsIsNotGivenUpAnyMore) {
  auto store = std::make_shared<MemoryStore>();
  const RankWorld first = world_with(0, {0, 1, 2});
  WorldAgreement zero(store, first.members[0]);
  zero.give_up(1);
  zero.give_up(2);
  zero.heard_of(world_with(0, {0, 1}));
  const RankWorld next = zero.next(first, false, false, Deadline::after(std::chrono::seconds(5)));
  EXPECT_EQ(ranks_of(next), (std::vector<int>{0, 1}));
}

// Another member had given up one that is late, on another host: nobody else knows.
TEST(WorldAgreementTest, LooksForANewerWorldWhileItMeets) {
  for (const bool all_are_ready : {false, true}) {
    auto store = std::make_shared<MemoryStore>();
    const RankWorld first = world_with(0, {0, 1, 2});
    WorldAgreement zero(store, first.members[0]), one(store, first.members[1]), two(store, first.members[2]);
    one.meet(first, Deadline::after(std::chrono::milliseconds(0)));
    if (all_are_ready) two.meet(first, Deadline::after(std::chrono::milliseconds(0)));
    one.give_up(2);
    one.next(first, false, false, Deadline::after(std::chrono::seconds(5)));
    const WorldMeeting meeting = zero.meet(first, Deadline::after(std::chrono::milliseconds(0)));
    EXPECT_FALSE(meeting.is_complete);
    EXPECT_EQ(ranks_of({0, meeting.late}), std::vector<int>{}) << "there is nobody to wait for";
  }
}

// A process that stands still after its look, until its deadline has passed.
class StoreOfASleeper : public MemoryStore {
 public:
  std::vector<LostRank> lost_ranks() override {
    if (sleep) std::exchange(sleep, nullptr)();
    return MemoryStore::lost_ranks();
  }
  std::function<void()> sleep;
};

TEST(WorldAgreementTest, LooksOnceMoreAfterItHasSlept) {
  auto store = std::make_shared<StoreOfASleeper>();
  const RankWorld first = world_with(0, {0, 1});
  WorldAgreement zero(store, first.members[0]), one(store, first.members[1]);
  const Deadline deadline = Deadline::after(std::chrono::milliseconds(500));
  store->sleep = [&] {
    one.meet(first, Deadline::never());
    std::this_thread::sleep_for(deadline.remaining());
  };
  const WorldMeeting meeting = zero.meet(first, deadline);
  EXPECT_TRUE(meeting.is_complete) << "the other one was there in time";
}

// Rank 1 has proposed the first world of a new store, and is lost, before rank 0 proposes another one.
TEST(WorldAgreementTest, TheFirstProposalCountsInANewStore) {
  auto store = std::make_shared<StoreOfASleeper>();
  const RankWorld first = world_with(0, {0, 1});
  WorldAgreement zero(store, first.members[0]), one(store, first.members[1]);
  for (WorldAgreement* const each : {&zero, &one}) each->begin_era(1);
  std::vector<Peer> late;
  store->sleep = [&] {
    EXPECT_EQ(ranks_of(one.call_roll(first, {0, 1}, Deadline::never(), late)), (std::vector<int>{0, 1}));
    store->mark_lost(1, "killed");
  };
  EXPECT_EQ(ranks_of(zero.call_roll(first, {0, 1}, Deadline::never(), late)), (std::vector<int>{0, 1}));
}

TEST(WorldAgreementTest, AProcessThatIsLostAfterItsWordIsNotInTheNewStoresFirstWorld) {
  auto store = std::make_shared<MemoryStore>();
  const RankWorld first = world_with(0, {0, 1});
  WorldAgreement zero(store, first.members[0]);
  zero.begin_era(1);
  store->set("here/1", encode(first));
  store->mark_lost(1, "killed");
  std::vector<Peer> late;
  EXPECT_EQ(ranks_of(zero.call_roll(first, {0, 1}, Deadline::never(), late)), std::vector<int>{0});
}

// It was given up because it was late at the lost store.
TEST(WorldAgreementTest, WhoeverArrivesAtANewStoreIsThere) {
  auto store = std::make_shared<MemoryStore>();
  const RankWorld first = world_with(0, {0, 1});
  WorldAgreement zero(store, first.members[0]);
  zero.give_up(1);
  zero.begin_era(1);
  store->set("here/1", encode(first));
  std::vector<Peer> late;
  EXPECT_EQ(ranks_of(zero.call_roll(first, {0, 1}, Deadline::never(), late)), (std::vector<int>{0, 1}));
}

// It was let in just before the store was lost.
TEST(WorldAgreementTest, AProcessThatAsksToJoinFindsItselfInTheNewStoresFirstWorld) {
  auto store = std::make_shared<MemoryStore>();
  const RankWorld first = world_with(first_number_of(1), {0, 4});
  WorldAgreement four(store, first.members[1]);
  four.begin_era(1);
  store->set("world/" + std::to_string(first.number), encode(first));
  EXPECT_EQ(four.wait_for_admission(Deadline::after(std::chrono::seconds(5))).number, first.number);
}

TEST(WorldAgreementTest, RequestsInANewStoreAreNew) {
  auto store = std::make_shared<MemoryStore>();
  const RankWorld world = world_with(1, {0, 4});
  const auto ask = [&](const Peer& peer) {
    EXPECT_THROW(WorldAgreement(store, peer).wait_for_admission(Deadline::after(std::chrono::milliseconds(1))),
                 TimeoutError);
  };
  WorldAgreement zero(store, world.members[0]);
  ask(world.members[1]);
  EXPECT_FALSE(zero.someone_waits(world)) << "it is a member";
  zero.begin_era(1);
  for (const char* key : {"asked", "ask/1"}) store->delete_key(key);
  ask(world_with(0, {5}).members[0]);
  EXPECT_TRUE(zero.someone_waits(world));
}

// It has its number, and its request is on the way.
TEST(WorldAgreementTest, LooksAgainForARequestThatIsNotComplete) {
  auto store = std::make_shared<MemoryStore>();
  const RankWorld first = world_with(0, {0});
  WorldAgreement zero(store, first.members[0]);
  store->add("asked", 1);
  EXPECT_FALSE(zero.someone_waits(first));
  WireWriter request;
  write_peer(request, world_with(0, {4}).members[0]);
  store->set("ask/1", request.bytes());
  EXPECT_TRUE(zero.someone_waits(first));
}

TEST(WorldAgreementTest, LetsAProcessIn) {
  auto store = std::make_shared<MemoryStore>();
  const RankWorld first = world_with(0, {0});
  WorldAgreement zero(store, first.members[0]), four(store, world_with(0, {4}).members[0]);
  EXPECT_FALSE(zero.someone_waits(first));
  EXPECT_THROW(four.wait_for_admission(Deadline::after(std::chrono::milliseconds(1))), TimeoutError);
  EXPECT_TRUE(zero.someone_waits(first));
  const RankWorld next = zero.next(first, true, true, Deadline::after(std::chrono::seconds(5)));
  EXPECT_EQ(ranks_of(next), (std::vector<int>{0, 4}));
  EXPECT_FALSE(zero.someone_waits(next));
  zero.close();
  WorldAgreement five(store, world_with(0, {5}).members[0]);
  EXPECT_THROW(five.wait_for_admission(Deadline::after(std::chrono::seconds(5))), Error);
}

TEST(FirstWorld, HasTheMembersOfTheNewestWorldThatAreThere) {
  const std::vector<RankWorld> known{world_with(2, {0, 1, 2}), world_with(3, {1, 2, 7}), world_with(2, {0, 1, 2})};
  const RankWorld first = first_world(1, known, {0, 1, 7});
  EXPECT_EQ(ranks_of(first), (std::vector<int>{1, 7})) << "2 is not there, and the others continued without 0";
  EXPECT_EQ(first.number, first_number_of(1));
  EXPECT_GT(first.number, 3);
  EXPECT_EQ(era_of(first.number + 5), 1);
  // A world of a later store is newer, whatever its number in that store.
  EXPECT_EQ(ranks_of(first_world(2, {world_with(9, {0, 1}), world_with(first_number_of(1), {1})}, {0, 1})),
            std::vector<int>{1});
}

}  // namespace
}  // namespace lockstep
