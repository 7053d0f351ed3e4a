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
constexpr std::size_t kDraftBytes = 64;

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
                                     UpdateJournal::draft_bytes(kDraftBytes)};
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

// Writes down what is done to the chunks. Dies in the copy of the chunk `fatal`.
struct ListedChunks {
  std::vector<std::string>& done;
  int fatal = -1;
  void draft(std::uint64_t k) const { done.push_back("draft " + std::to_string(k)); }
  void publish(std::uint64_t k) const {
    if (static_cast<int>(k) == fatal) throw std::string("killed");
    done.push_back("publish " + std::to_string(k));
  }
};

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

TEST_F(JournalInMemory, ALaneIsDoneOnceItsLastChunkIsCopied) {
  std::vector<std::string> done;
  EXPECT_FALSE(journal_.is_done(0, 1, 3, 2));
  EXPECT_THROW(journal_.run(0, 1, 3, 2, ListedChunks{done, 1}), std::string);
  EXPECT_TRUE(journal_.is_done(0, 1, 3, 1));
  EXPECT_FALSE(journal_.is_done(0, 1, 3, 2)) << "half of the last chunk may be copied";
  EXPECT_FALSE(journal_.is_done(0, 0, 3, 1)) << "it is another lane";
  journal_.run(0, 1, 3, 2, ListedChunks{done});
  EXPECT_TRUE(journal_.is_done(0, 1, 3, 2));
  EXPECT_FALSE(journal_.is_done(0, 1, 4, 1));
  EXPECT_EQ(done, (std::vector<std::string>{"draft 0", "publish 0", "draft 1", "publish 1"}));
}

// Another training has the same numbers of updates.
TEST_F(JournalInMemory, ANewOneHasNothingOfTheOneBefore) {
  std::vector<std::string> done;
  journal_.decide(1, {1, 0, {1, 1, 1}});
  for (int lane = 0; lane < kLanes; ++lane) journal_.run(0, lane, 1, 2, ListedChunks{done});
  journal_.begin(*alone_);
  EXPECT_FALSE(journal_.decision(1).has_value());
  for (int lane = 0; lane < kLanes; ++lane) EXPECT_FALSE(journal_.is_done(0, lane, 1, 1)) << "lane " << lane;
}

TEST_F(JournalInMemory, NotesAndDraftsHavePlacesOfTheirOwn) {
  std::vector<std::byte*> drafts;
  for (int rank = 0; rank < 2; ++rank) {
    for (int lane = 0; lane < kLanes; ++lane) drafts.push_back(journal_.draft(rank, lane));
  }
  journal_.decide(5, {0.5, 2, {1, 1, 0}});
  for (const auto& draft : drafts) std::memset(draft, static_cast<int>(1 + &draft - drafts.data()), kDraftBytes);
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    for (const std::size_t at : {std::size_t{0}, kDraftBytes - 1}) {
      EXPECT_EQ(drafts[i][at], static_cast<std::byte>(1 + i)) << "draft " << i;
    }
  }
  EXPECT_EQ(journal_.decision(5).value().contributed, (std::vector<std::uint8_t>{1, 1, 0}));
  for (int lane = 0; lane < kLanes; ++lane) EXPECT_FALSE(journal_.is_done(0, lane, 5, 1)) << "lane " << lane;
}

}  // namespace
}  // namespace lockstep
