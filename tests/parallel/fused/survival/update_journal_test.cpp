// Tests the journal of one rank in real memory: what the models of its protocols take for granted.
#include "lockstep/parallel/fused/recovery/update_journal.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "lockstep/comm/single.h"
#include "lockstep/net/worlds/job_memory.h"

namespace lockstep {
namespace {

constexpr std::size_t kParameters = 3;
constexpr int kLanes = 2;
constexpr std::size_t kSlotsBytes = 64;

class JournalInMemory : public ::testing::Test {
 protected:
  JournalInMemory() { journal_.begin(*alone_); }

  std::shared_ptr<LastingMemory> open_memory() const {
    const auto job = std::make_shared<JobMemoryMap>(file_.get());
    LastingMemory::Shape shape;
    shape.buckets.push_back({100, 0, at::kFloat});
    shape.parameters = kParameters;
    shape.most_ranks = 2;
    const LastingMemory::Lanes lanes{kLanes, UpdateJournal::note_bytes(kParameters),
                                     UpdateJournal::undo_bytes(kSlotsBytes)};
    return LastingMemory::open(job, shape, lanes, false, nullptr, MemoryHosts::of(*alone_, job.get()), *alone_);
  }
  static std::shared_ptr<Communicator> make_alone() {
    Membership membership;
    membership.peers.emplace_back();
    return make_single_communicator(membership);
  }

  const UniqueFd file_ = make_job_memory();
  const std::shared_ptr<Communicator> alone_ = make_alone();
  UpdateJournal journal_{open_memory(), 0, 1};
};

std::uint64_t resume(UpdateJournal& journal, int rank, int lane, std::uint64_t number) {
  return journal.lane(rank, lane).resume(number, [](const UndoMark&) {});
}

TEST_F(JournalInMemory, KeepsWhatOthersNeed) {
  EXPECT_FALSE(journal_.decision(1).has_value());
  journal_.decide(7, {0.5, 12.25, {1, 0, 1}});
  const std::optional<UpdateNote> note = journal_.decision(7);
  ASSERT_TRUE(note.has_value());
  EXPECT_EQ(note->factor, 0.5);
  EXPECT_EQ(note->norm, 12.25);
  EXPECT_EQ(note->contributed, (std::vector<std::uint8_t>{1, 0, 1}));
  EXPECT_FALSE(journal_.decision(6).has_value());
  EXPECT_FALSE(journal_.decision(8).has_value());
}

TEST_F(JournalInMemory, ALaneIsAsFarAsItsMarkTells) {
  EXPECT_FALSE(journal_.lane(0, 1).is_done(3, 1));
  EXPECT_TRUE(journal_.lane(0, 1).is_done(3, 0)) << "it has no elements";
  const UndoLog log = journal_.undo(0, 1, 3);
  log.mark(70, 64, 1);
  EXPECT_TRUE(journal_.lane(0, 1).is_done(3, 70));
  EXPECT_FALSE(journal_.lane(0, 1).is_done(3, 71)) << "a part of the block may be old";
  EXPECT_FALSE(journal_.lane(0, 0).is_done(3, 1)) << "it is another lane";
  UndoMark torn;
  EXPECT_EQ(journal_.lane(0, 1).resume(3, [&](const UndoMark& mark) { torn = mark; }), 70U);
  EXPECT_EQ(torn.position, 70U);
  EXPECT_EQ(torn.elements, 64U);
  EXPECT_EQ(torn.slot, 1U);
  EXPECT_EQ(resume(journal_, 0, 1, 4), 0U) << "it is another update";
  journal_.lane(0, 1).finish(3, 200);
  EXPECT_TRUE(journal_.lane(0, 1).is_done(3, 200));
  const auto fail = [](const UndoMark&) { FAIL() << "nothing was under way"; };
  EXPECT_EQ(journal_.lane(0, 1).resume(3, fail), 200U);
}

TEST_F(JournalInMemory, AMarkHasRoomForLargeLanesAndManyUpdates) {
  const std::uint64_t number = (std::uint64_t{1} << 32) + 5, position = (std::uint64_t{1} << 40) - 64;
  const UndoMark mark = UndoMark::of(UndoMark{number, position, 64, 1}.word());
  EXPECT_TRUE(mark.is_of(number));
  EXPECT_FALSE(mark.is_of(number - 1));
  EXPECT_EQ(mark.position, position);
  EXPECT_EQ(mark.elements, 64U);
  EXPECT_EQ(mark.slot, 1U);
}

// Another training has the same numbers of updates.
TEST_F(JournalInMemory, ANewOneHasNothingOfTheOneBefore) {
  journal_.decide(1, {1, 0, {1, 1, 1}});
  for (int lane = 0; lane < kLanes; ++lane) journal_.lane(0, lane).finish(1, 2);
  journal_.begin(*alone_);
  EXPECT_FALSE(journal_.decision(1).has_value());
  for (int lane = 0; lane < kLanes; ++lane) EXPECT_FALSE(journal_.lane(0, lane).is_done(1, 1)) << "lane " << lane;
}

TEST_F(JournalInMemory, NotesAndUndoLogsHavePlacesOfTheirOwn) {
  std::vector<std::byte*> logs;
  for (int rank = 0; rank < 2; ++rank) {
    for (int lane = 0; lane < kLanes; ++lane) logs.push_back(journal_.undo(rank, lane, 5).slots);
  }
  journal_.decide(5, {0.5, 2, {1, 1, 0}});
  for (const auto& log : logs) std::memset(log, static_cast<int>(1 + &log - logs.data()), kSlotsBytes);
  for (std::size_t i = 0; i < logs.size(); ++i) {
    for (const std::size_t at : {std::size_t{0}, kSlotsBytes - 1}) {
      EXPECT_EQ(logs[i][at], static_cast<std::byte>(1 + i)) << "log " << i;
    }
  }
  EXPECT_EQ(journal_.decision(5).value().contributed, (std::vector<std::uint8_t>{1, 1, 0}));
  for (int lane = 0; lane < kLanes; ++lane) EXPECT_FALSE(journal_.lane(0, lane).is_done(5, 1)) << "lane " << lane;
}

}  // namespace
}  // namespace lockstep
