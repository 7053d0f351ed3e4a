#include "lockstep/net/worlds/world.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
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
