#include "lockstep/comm/mesh/activity.h"

#include <gtest/gtest.h>

#include <set>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

Activity collective(std::uint64_t sequence, std::int64_t count = 10, OperationKind kind = OperationKind::AllReduce) {
  Activity activity;
  activity.fingerprint.kind = kind;
  activity.fingerprint.count = count;
  activity.fingerprint.sequence = sequence;
  return activity;
}

Activity message(OperationKind kind, int other, std::int64_t count, int tag = 0, std::uint64_t number = 0) {
  Activity activity = collective(number, count, kind);
  activity.fingerprint.root = other;
  activity.tag = tag;
  activity.number = number;
  return activity;
}

std::optional<RankState> state_of(std::vector<Activity> current, std::vector<Fingerprint> ended = {}) {
  RankState state;
  state.current = std::move(current);
  state.ended = std::move(ended);
  return state;
}

Membership three_ranks() {
  Membership membership;
  membership.world_size = 3;
  membership.peers = {{0, "alpha", "a", 0, 0}, {1, "beta", "b", 0, 0}, {2, "gamma", "c", 0, 0}};
  return membership;
}

TEST(Activity, StateIsReadBack) {
  RankState state;
  state.beat = 7;
  state.ended = {collective(2).fingerprint, collective(3).fingerprint};
  state.current = {collective(4, 99, OperationKind::Broadcast), message(OperationKind::Send, 2, 5, 11, 6)};
  state.current[0].is_group_start = true;
  state.left = true;
  const RankState again = decode_state(encode_state(state));
  EXPECT_EQ(again.beat, 7u);
  EXPECT_TRUE(again.left);
  EXPECT_EQ(again.ended, state.ended);
  ASSERT_EQ(again.current.size(), 2u);
  EXPECT_TRUE(again.current[0].is_group_start);
  EXPECT_EQ(again.current[0].fingerprint, state.current[0].fingerprint);
  EXPECT_EQ(again.current[1].tag, 11);
  EXPECT_EQ(again.current[1].number, 6u);
}

TEST(Activity, RefusesStatesThatNoRankTells) {
  const std::string good = encode_state(*state_of({collective(4)}));
  EXPECT_NO_THROW(decode_state(good));
  for (std::size_t length = 0; length + 1 < good.size(); ++length) {
    if (good[length] == ' ') {
      EXPECT_THROW(decode_state(good.substr(0, length)), Error) << length;
    }
  }
  for (const char* text : {"", "1 0 0 0 0", "2 0 0 17 0", "2 0 0 0 99999999999", "2 0 0 1 99 0 6 0 1 1 0 0 0",
                           "2 0 0 1 0 0 -1 0 1 1 0 0 0", "nonsense", "2 0 0 -1"}) {
    EXPECT_THROW(decode_state(text), Error) << text;
  }
}

TEST(Activity, SlotsTellOperationsApart) {
  std::set<std::uint64_t> slots;
  std::size_t count = 0;
  for (std::uint64_t sequence = 0; sequence < 50; ++sequence) {
    for (std::int64_t elements = 0; elements < 50; ++elements) {
      for (const OperationKind kind : {OperationKind::AllReduce, OperationKind::Broadcast}) {
        slots.insert(slot_of(collective(sequence, elements, kind), 0));
        ++count;
      }
    }
  }
  EXPECT_EQ(slots.size(), count);
  for (const std::uint64_t slot : slots) EXPECT_EQ(slot & 0xff, 0u);
}

TEST(Activity, BothSidesOfAMessageHaveOneSlot) {
  const Activity send = message(OperationKind::Send, 2, 10, 5, 3);
  const Activity recv = message(OperationKind::Recv, 1, 10, 5, 3);
  EXPECT_EQ(slot_of(send, 1), slot_of(recv, 2));
  EXPECT_NE(slot_of(send, 1), slot_of(send, 0));
  EXPECT_NE(slot_of(send, 1), slot_of(message(OperationKind::Send, 2, 10, 6, 3), 1));
  EXPECT_NE(slot_of(send, 1), slot_of(message(OperationKind::Send, 2, 11, 5, 3), 1));
}

TEST(Activity, StepsOfDifferentOperationsHaveDifferentSlots) {
  const Activity alone = collective(1);
  Activity step = alone;
  step.enclosing_mark = 5;
  Activity step_of_another = alone;
  step_of_another.enclosing_mark = 7;
  EXPECT_EQ(slot_of(step, 0), slot_of(step, 1));
  EXPECT_NE(slot_of(step, 0), slot_of(alone, 0));
  EXPECT_NE(slot_of(step, 0), slot_of(step_of_another, 0));
}

TEST(Activity, AgreementIsNoDisagreement) {
  const Membership membership = three_ranks();
  EXPECT_EQ(find_disagreement({state_of({collective(4)}), state_of({collective(4)}), {}}, membership), std::nullopt);
  // Rank 1 is ahead, as the root of a broadcast may be.
  EXPECT_EQ(find_disagreement({state_of({collective(4)}), state_of({collective(5)}, {collective(4).fingerprint}), {}},
                              membership),
            std::nullopt);
}

TEST(Activity, DisagreementNamesRanksAndOperations) {
  const auto found = find_disagreement(
      {state_of({collective(4, 10)}), state_of({collective(4, 11)}), state_of({collective(4, 10)})}, three_ranks());
  ASSERT_TRUE(found);
  EXPECT_NE(found->happened.find("rank 0 on alpha, rank 2 on gamma call all_reduce #4 (sum) of 10 float"),
            std::string::npos)
      << found->happened;
  EXPECT_NE(found->happened.find("rank 1 on beta calls all_reduce #4 (sum) of 11 float"), std::string::npos)
      << found->happened;
}

TEST(Activity, DisagreementWithAnOperationThatEnded) {
  const auto found = find_disagreement(
      {state_of({collective(4, 10)}), state_of({}, {collective(4, 0).fingerprint}), {}}, three_ranks());
  ASSERT_TRUE(found);
  EXPECT_NE(found->happened.find("of 0 float"), std::string::npos) << found->happened;
}

TEST(Activity, DisagreementOnOperationsThatAllHaveLeft) {
  Activity other = collective(4, 10, OperationKind::Broadcast);
  Activity root = other;
  root.fingerprint.root = 1;
  const auto found = find_disagreement(
      {state_of({collective(5)}, {other.fingerprint}), state_of({collective(5)}, {root.fingerprint}), {}},
      three_ranks());
  ASSERT_TRUE(found);
  EXPECT_NE(found->happened.find("rank 0 on alpha calls broadcast #4 (root 0)"), std::string::npos) << found->happened;
  EXPECT_NE(found->happened.find("rank 1 on beta calls broadcast #4 (root 1)"), std::string::npos) << found->happened;
}

TEST(Activity, DisagreementOnAMessage) {
  const auto found = find_disagreement(
      {state_of({message(OperationKind::Send, 1, 10)}), state_of({message(OperationKind::Recv, 0, 12)}), {}},
      three_ranks());
  ASSERT_TRUE(found);
  EXPECT_NE(found->happened.find("rank 0 on alpha calls send #0 (to rank 1) of 10 float, tag 0"), std::string::npos)
      << found->happened;
  EXPECT_NE(found->happened.find("rank 1 on beta calls recv #0 (from rank 0) of 12 float, tag 0"), std::string::npos)
      << found->happened;
}

TEST(Activity, NotArrivedAreThoseBehindAndThoseUnheardOf) {
  EXPECT_EQ(not_arrived({state_of({collective(4)}), state_of({}, {collective(3).fingerprint}), {}}, 4),
            (std::vector<int>{1, 2}));
  EXPECT_EQ(
      not_arrived({state_of({collective(4)}), state_of({}, {collective(4).fingerprint}), state_of({collective(6)})}, 4),
      std::vector<int>{});
}

}  // namespace
}  // namespace lockstep
