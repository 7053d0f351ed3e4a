// Every interleaving of an update that ranks share with kills at every access: survivors finish it, or nothing of it
// has happened.
//
// Seen to fail with each of these changes: an update without old values; a mark before they are complete; one slot for
// all blocks; a last block that stays marked while the next pass uses its slot; a block that others do not take back; a
// decision that is written down after the first block, or before its content.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/comm/shm/protocols/update_protocol.h"
#include "lockstep/optim/kernels/undo_blocks.h"
#include "lockstep/optim/update/update_lane.h"
#include "tests/comm/shm/interleavings.h"

namespace lockstep::shm {
namespace {

// Places in a rank's data.
constexpr int kDead = 0, kEntered = 1, kArrived = 2, kLeft = 3, kLevel = 4, kLane = 5, kUndo = 6, kNote = 10,
              kFactor = 11, kElements = 12;
constexpr std::uint64_t kAllPassed = 99;

struct Killed {};

struct Job {
  int ranks = 2;
  std::uint64_t updates = 1;
  std::uint64_t elements = 1;  // of each rank; each is a block
  int arrays = 2;              // with a word for each element
  bool passes = false;         // one for each element
  int first_immortal = 1;      // ranks below it may be killed
  bool second_late = false;    // rank 1 only while it recovers
  enum class Fault {
    None,
    NoUndo,
    MarkFirst,
    OneSlot,
    StaysMarked,
    NotBack,
    LateDecision,
    WordFirst
  } fault = Fault::None;
};

std::uint64_t factor_of(std::uint64_t number) { return 10 + number; }

// The memory of a rank that may be killed before each of its accesses. The others learn of it when all of its stores
// have taken effect, as they learn of a process that has ended.
class MortalMemory {
 public:
  MortalMemory(CheckedMemory& memory, bool may_die) : memory_(memory), may_die_(may_die) {}

  void set_mortal(bool may_die) { may_die_ = may_die; }
  int rank() const { return memory_.rank(); }
  int world_size() const { return memory_.world_size(); }
  Word& data(int rank, int index) { return memory_.data(rank, index); }
  std::uint64_t load(const Word& word) {
    risk();
    return memory_.load(word);
  }
  void store(Word& word, std::uint64_t value) {
    risk();
    memory_.store(word, value);
  }
  void store_in_order(Word& word, std::uint64_t value) {
    risk();
    memory_.store_in_order(word, value);
  }
  void await(const std::function<bool()>& ready) {
    risk();
    memory_.await(0, ready, [](int) { return false; });
  }
  std::uint64_t peek(int rank, int index) { return memory_.load(memory_.data(rank, index)); }
  void expect(bool condition, const char* what) { memory_.expect(condition, what); }
  int choose(int ways) { return memory_.choose(ways); }

 private:
  void risk() {
    if (!may_die_ || memory_.choose(2) == 0) return;
    memory_.store_in_order(memory_.data(memory_.rank(), kDead), 1);
    throw Killed();
  }

  CheckedMemory& memory_;
  bool may_die_;
};

// A rank's elements, and its undo log. The update of each word depends on its old value and on its place.
struct ModelElements {
  static std::size_t block(std::size_t) { return 1; }

  MortalMemory& memory;
  int owner;
  std::uint64_t number;
  std::uint64_t factor;
  const Job& job;

  Word& word(std::size_t element, int array) const {
    return memory.data(owner, kElements + 2 * static_cast<int>(element) + array);
  }
  Word& old(std::size_t slot, int array) const {
    const bool is_one = job.fault == Job::Fault::OneSlot;
    return memory.data(owner, kUndo + (is_one ? 0 : 2 * static_cast<int>(slot)) + array);
  }
  void set_mark(std::size_t begin, std::size_t elements, std::size_t slot) const {
    memory.store(memory.data(owner, kLane), UndoMark{number, begin, elements, slot}.word());
  }

  void save(std::size_t begin, std::size_t elements, std::size_t slot) const {
    if (job.fault == Job::Fault::NoUndo) return;
    if (job.fault == Job::Fault::MarkFirst) set_mark(begin, elements, slot);
    for (int i = 0; i < job.arrays; ++i) memory.store(old(slot, i), memory.load(word(begin, i)));
  }
  void mark(std::size_t begin, std::size_t elements, std::size_t slot) const {
    const bool is_needless = job.fault == Job::Fault::MarkFirst && elements > 0;
    if (!is_needless && (job.fault != Job::Fault::StaysMarked || elements > 0)) set_mark(begin, elements, slot);
  }
  void update(std::size_t begin) const {
    for (int i = 0; i < job.arrays; ++i) memory.store(word(begin, i), 2 * memory.load(word(begin, i)) + factor + begin);
  }
  void take_back(const UndoMark& mark) const {
    if (job.fault == Job::Fault::NoUndo || job.fault == Job::Fault::NotBack) return;
    for (int i = 0; i < job.arrays; ++i) memory.store(word(mark.position, i), memory.load(old(mark.slot, i)));
  }
  void update_from(std::size_t begin, std::size_t end) const {
    update_with_undo(*this, begin, end, [this](std::size_t at, std::size_t) { update(at); });
  }
};

struct ModelNotes {
  MortalMemory& memory;
  Word& word(int rank) { return memory.data(rank, kNote); }
};

class ModelRank {
 public:
  ModelRank(CheckedMemory& memory, const Job& job)
      : job_(job), memory_(memory, is_mortal(job, memory.rank(), false)), notes_{memory_} {}

  void run() {
    for (number_ = 1; number_ <= job_.updates; ++number_) {
      if (!update()) return recover();
    }
    number_ = job_.updates;
    memory_.store_in_order(memory_.data(memory_.rank(), kLeft), kAllPassed);
    check(job_.updates);
  }

 private:
  static bool is_mortal(const Job& job, int rank, bool recovers) {
    return rank < job.first_immortal && (rank == 0 || recovers || !job.second_late);
  }

  using Decision = UpdateDecision<MortalMemory, ModelNotes>;

  bool all(int index, std::uint64_t least) {
    for (int rank = 0; rank < job_.ranks; ++rank) {
      if (memory_.peek(rank, index) < least) return false;
    }
    return true;
  }
  bool any_dead() {
    for (int rank = 0; rank < job_.ranks; ++rank) {
      if (memory_.peek(rank, kDead) != 0) return true;
    }
    return false;
  }
  // @return  false if the group has ended: it may end even if all are there
  bool meet(int index) {
    memory_.store_in_order(memory_.data(memory_.rank(), index), number_);
    memory_.await([&] { return all(index, number_) || any_dead(); });
    for (int rank = 0; rank < job_.ranks; ++rank) {
      if (memory_.load(memory_.data(rank, index)) < number_) return false;
    }
    return !seen_dead() || memory_.choose(2) == 0;
  }
  bool seen_dead() {
    for (int rank = 0; rank < job_.ranks; ++rank) {
      if (memory_.load(memory_.data(rank, kDead)) != 0) return true;
    }
    return false;
  }
  void decide() {
    const auto write = [&] { memory_.store(memory_.data(memory_.rank(), kFactor), factor_of(number_)); };
    const bool is_early = job_.fault == Job::Fault::WordFirst;
    Decision(memory_, notes_).decide(number_, [&] {
      if (!is_early) write();
    });
    if (is_early) write();
  }
  void run_lane(int owner, std::uint64_t factor, bool recovers) {
    const ModelElements elements{memory_, owner, number_, factor, job_};
    UpdateLane<MortalMemory> lane(memory_, memory_.data(owner, kLane));
    if (recovers && lane.is_done(number_, job_.elements)) return;
    std::uint64_t at = lane.resume(number_, [&](const UndoMark& mark) { elements.take_back(mark); });
    for (; job_.passes && at + 1 < job_.elements; ++at) elements.update_from(at, at + 1);
    if (at < job_.elements) elements.update_from(at, job_.elements);
    lane.finish(number_, job_.elements);
    memory_.expect(lane.is_done(number_, job_.elements), "the lane is not done after it was run");
  }
  bool update() {
    if (!meet(kEntered)) return false;
    const bool is_late = job_.fault == Job::Fault::LateDecision;
    if (!is_late) decide();
    run_lane(memory_.rank(), factor_of(number_), false);
    if (is_late) decide();
    return meet(kArrived);
  }
  // As often as one more rank is lost.
  void recover() {
    memory_.set_mortal(is_mortal(job_, memory_.rank(), true));
    for (std::uint64_t round = 1;; ++round) {
      memory_.store_in_order(memory_.data(memory_.rank(), kLeft), round);
      memory_.await([&] { return are_dead_or(kLeft, round); });
      const std::vector<int> alive = survivors();
      Decision decision(memory_, notes_);
      const int by = decision.decided_by(number_);
      if (by >= 0) finish_lanes(by, alive);
      memory_.store_in_order(memory_.data(memory_.rank(), kLevel), round);
      memory_.await([&] { return are_dead_or(kLevel, round); });
      if (survivors() == alive) return check(by < 0 ? number_ - 1 : number_);
    }
  }
  // Its own, and those of dead ranks, which the survivors deal out.
  void finish_lanes(int by, const std::vector<int>& alive) {
    const std::uint64_t factor = memory_.load(memory_.data(by, kFactor));
    std::size_t dead = 0;
    for (int rank = 0; rank < job_.ranks; ++rank) {
      const bool is_alive = std::find(alive.begin(), alive.end(), rank) != alive.end();
      const int who = is_alive ? rank : alive[dead++ % alive.size()];
      if (who == memory_.rank()) run_lane(rank, factor, true);
    }
  }
  bool are_dead_or(int index, std::uint64_t round) {
    for (int rank = 0; rank < job_.ranks; ++rank) {
      const bool is_there = memory_.peek(rank, index) >= round || memory_.peek(rank, kLeft) == kAllPassed;
      if (!is_there && memory_.peek(rank, kDead) == 0) return false;
    }
    return true;
  }
  std::vector<int> survivors() {
    std::vector<int> alive;
    for (int rank = 0; rank < job_.ranks; ++rank) {
      if (memory_.load(memory_.data(rank, kDead)) == 0) alive.push_back(rank);
    }
    return alive;
  }
  // Every element has had exactly these updates.
  void check(std::uint64_t updates) {
    for (int rank = 0; rank < job_.ranks; ++rank) {
      for (std::uint64_t k = 0; k < job_.elements; ++k) {
        std::uint64_t wanted = 0;
        for (std::uint64_t number = 1; number <= updates; ++number) wanted = 2 * wanted + factor_of(number) + k;
        for (int i = 0; i < job_.arrays; ++i) {
          const int index = kElements + 2 * static_cast<int>(k) + i;
          memory_.expect(memory_.load(memory_.data(rank, index)) == wanted, "an element is half or twice updated");
        }
      }
    }
  }

  const Job& job_;
  MortalMemory memory_;
  ModelNotes notes_;
  std::uint64_t number_ = 0;
};

CheckResult check_update(const Job& job) {
  CheckOptions options;
  options.world_size = job.ranks;
  options.most_states = 20'000'000;
  const RankProgram program = [&](CheckedMemory& memory) {
    try {
      ModelRank(memory, job).run();
    } catch (const Killed&) {
    }
  };
  return check_all_interleavings(std::vector<RankProgram>(static_cast<std::size_t>(job.ranks), program), options);
}

TEST(UpdateModel, ASurvivorFinishesOrTakesBack) {
  Job job;
  job.elements = 2;
  job.updates = 2;  // old values of the first one are equal
  for (const bool passes : {false, true}) {
    job.passes = passes;
    const CheckResult result = check_update(job);
    EXPECT_EQ(result.failure, "");
    EXPECT_GT(result.endings, 100U);
  }
}

TEST(UpdateModel, OneUpdateAfterTheOther) {
  Job job;
  job.updates = 3;
  EXPECT_EQ(check_update(job).failure, "");
}

TEST(UpdateModel, TheRankThatRecoversMayBeKilledToo) {
  Job job;
  job.ranks = 3;
  job.first_immortal = 2;
  job.arrays = 1;
  job.second_late = !env_bool("LOCKSTEP_LONG_TESTS").value_or(false);  // else a minute
  EXPECT_EQ(check_update(job).failure, "");
}

class UpdateModelItself : public ::testing::TestWithParam<Job::Fault> {};

TEST_P(UpdateModelItself, FindsTheFault) {
  Job job;
  job.fault = GetParam();
  job.updates = 2;
  if (job.fault == Job::Fault::OneSlot || job.fault == Job::Fault::StaysMarked) job.elements = 2;
  job.passes = job.fault == Job::Fault::StaysMarked;
  EXPECT_NE(check_update(job).failure, "");
}

INSTANTIATE_TEST_SUITE_P(All, UpdateModelItself,
                         ::testing::Values(Job::Fault::NoUndo, Job::Fault::MarkFirst, Job::Fault::OneSlot,
                                           Job::Fault::StaysMarked, Job::Fault::NotBack, Job::Fault::LateDecision,
                                           Job::Fault::WordFirst));

}  // namespace
}  // namespace lockstep::shm
