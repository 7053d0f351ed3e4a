// Every interleaving of updates and changes of their journal with kills of all ranks, at every access of each: a
// process that comes when all are gone finds whole updates, or finishes the one that was decided.
//
// Seen to fail with each of these changes: words that are cleared while the old journal counts; a number that is
// written before all ranks have arrived; a journal that counts before its words are clear.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "lockstep/comm/shm/protocols/update_protocol.h"
#include "tests/comm/shm/interleavings.h"

namespace lockstep::shm {
namespace {

// Places in a rank's data.
constexpr int kIsGone = 0, kRound = 1, kOwnLane = 2, kOwnDraft = 3, kOwnNote = 4, kOwnFactor = 5, kChunk = 6;
// Places in the data of the process that comes last.
constexpr int kUpdates = 0, kRanksOfJournal = 1;

struct AllKilled {};

struct DoomedJob {
  int ranks = 2;
  std::uint64_t updates = 1;
  bool changes_journal = true;  // after each update, as if a rank had been lost or had joined
  enum class Fault { None, ClearsEarly, CountsEarly, NumberEarly } fault = Fault::None;
};

std::uint64_t doomed_factor(std::uint64_t number) { return 10 + number; }

// The memory of a rank that may be killed before each of its stores, and is killed if another one was. Nobody reads a
// rank's words before it has ended, and all of its stores have taken effect then, so none of them is delayed.
class DoomedMemory {
 public:
  DoomedMemory(CheckedMemory& memory, int ranks, bool may_die) : memory_(memory), ranks_(ranks), may_die_(may_die) {}

  int rank() const { return memory_.rank(); }
  int world_size() const { return ranks_; }
  Word& data(int rank, int index) { return memory_.data(rank, index); }
  Word& own(int index) { return memory_.data(rank(), index); }
  Word& of_all(int index) { return memory_.data(ranks_, index); }
  std::uint64_t load(const Word& word) { return memory_.load(word); }
  void store(Word& word, std::uint64_t value) {
    risk();
    memory_.store_in_order(word, value);
  }
  void expect(bool condition, const char* what) { memory_.expect(condition, what); }
  // A barrier. If a rank has died, this one dies in it.
  void meet(std::uint64_t round) {
    risk();
    memory_.store_in_order(own(kRound), round);
    memory_.await(
        0, [&] { return count(kRound, round) == ranks_ || count(kIsGone, 1) > 0; }, [](int) { return false; });
    if (count(kRound, round) < ranks_) die();
  }
  void await_end_of_all() {
    memory_.await(
        0, [&] { return count(kIsGone, 1) == ranks_; }, [](int) { return false; });
  }
  [[noreturn]] void die() {
    memory_.store_in_order(own(kIsGone), 1);
    throw AllKilled();
  }

 private:
  int count(int index, std::uint64_t least) {
    int found = 0;
    for (int rank = 0; rank < ranks_; ++rank) found += memory_.load(memory_.data(rank, index)) >= least ? 1 : 0;
    return found;
  }
  void risk() {
    if (may_die_ && memory_.choose(2) != 0) die();
  }

  CheckedMemory& memory_;
  int ranks_;
  bool may_die_;
};

struct DoomedChunk {
  DoomedMemory& memory;
  int owner;
  std::uint64_t factor;

  Word& word() const { return memory.data(owner, kChunk); }
  void draft(std::uint64_t) const { memory.store(memory.data(owner, kOwnDraft), 2 * memory.load(word()) + factor); }
  void publish(std::uint64_t) const { memory.store(word(), memory.load(memory.data(owner, kOwnDraft))); }
};

struct DoomedJournal {
  DoomedMemory& memory;
  Word& word(int rank) { return memory.data(rank, kOwnNote); }
  Word& ranks_word() { return memory.of_all(kRanksOfJournal); }
  void clear() {
    memory.store(memory.own(kOwnNote), 0);
    memory.store(memory.own(kOwnLane), 0);
  }
};

class DoomedRank {
 public:
  DoomedRank(CheckedMemory& memory, const DoomedJob& job)
      : job_(job), memory_(memory, job.ranks, true), journal_{memory_} {}

  void run() {
    if (memory_.rank() == 1) leave_words_of_another_training();
    change_journal();
    for (std::uint64_t number = 1; number <= job_.updates; ++number) {
      meet();  // the agreement, and the norm
      UpdateDecision<DoomedMemory, DoomedJournal>(memory_, journal_).decide(number, [&] {
        memory_.store(memory_.own(kOwnFactor), doomed_factor(number));
      });
      UpdateLane<DoomedMemory>(memory_, memory_.own(kOwnLane))
          .run(number, 1, DoomedChunk{memory_, memory_.rank(), doomed_factor(number)});
      const bool is_early = job_.fault == DoomedJob::Fault::NumberEarly;
      if (!is_early) meet();
      memory_.store(memory_.of_all(kUpdates), number);
      if (is_early) meet();
      if (job_.changes_journal) change_journal();
    }
    memory_.die();
  }

 private:
  void meet() { memory_.meet(++round_); }
  // Its updates had the same numbers.
  void leave_words_of_another_training() {
    memory_.store(memory_.own(kOwnLane), (std::uint64_t{1} << 32) | 2);
    memory_.store(memory_.own(kOwnNote), 1);
  }
  void change_journal() {
    if (job_.fault == DoomedJob::Fault::ClearsEarly) journal_.clear();
    if (job_.fault == DoomedJob::Fault::CountsEarly) memory_.store(journal_.ranks_word(), 2);
    meet();  // all have finished the update before
    JournalChange<DoomedMemory, DoomedJournal>(memory_, journal_).begin([this] { meet(); });
  }

  const DoomedJob& job_;
  DoomedMemory memory_;
  DoomedJournal journal_;
  std::uint64_t round_ = 0;
};

// As RecoverableUpdate::begin.
void run_last_process(CheckedMemory& checked, const DoomedJob& job) {
  DoomedMemory memory(checked, job.ranks, false);
  memory.await_end_of_all();
  std::uint64_t number = memory.load(memory.of_all(kUpdates));
  DoomedJournal journal{memory};
  const bool has_journal = memory.load(journal.ranks_word()) != 0;
  const int by = has_journal ? UpdateDecision<DoomedMemory, DoomedJournal>(memory, journal).decided_by(number + 1) : -1;
  if (by >= 0) {
    ++number;
    const std::uint64_t factor = memory.load(memory.data(by, kOwnFactor));
    memory.expect(factor == doomed_factor(number), "the note of another update");
    for (int rank = 0; rank < job.ranks; ++rank) {
      UpdateLane<DoomedMemory>(memory, memory.data(rank, kOwnLane)).run(number, 1, DoomedChunk{memory, rank, factor});
    }
  }
  std::uint64_t wanted = 0;
  for (std::uint64_t each = 1; each <= number; ++each) wanted = 2 * wanted + doomed_factor(each);
  for (int rank = 0; rank < job.ranks; ++rank) {
    memory.expect(memory.load(memory.data(rank, kChunk)) == wanted, "a chunk is half or twice updated");
  }
}

CheckResult check_doomed(const DoomedJob& job) {
  CheckOptions options;
  options.world_size = job.ranks + 1;
  options.most_states = 20'000'000;
  const RankProgram doomed = [&](CheckedMemory& memory) {
    try {
      DoomedRank(memory, job).run();
    } catch (const AllKilled&) {
    }
  };
  std::vector<RankProgram> programs(static_cast<std::size_t>(job.ranks), doomed);
  programs.emplace_back([&](CheckedMemory& memory) { run_last_process(memory, job); });
  return check_all_interleavings(programs, options);
}

TEST(JournalModel, WhoComesLastFindsWholeUpdates) {
  const CheckResult result = check_doomed(DoomedJob());
  EXPECT_EQ(result.failure, "");
  EXPECT_GT(result.endings, 100U);
}

TEST(JournalModel, AlsoWithoutAChangeOfRanks) {
  DoomedJob job;
  job.changes_journal = false;
  job.updates = 2;
  EXPECT_EQ(check_doomed(job).failure, "");
}

class JournalModelItself : public ::testing::TestWithParam<DoomedJob::Fault> {};

TEST_P(JournalModelItself, FindsTheFault) {
  DoomedJob job;
  job.fault = GetParam();
  EXPECT_NE(check_doomed(job).failure, "");
}

INSTANTIATE_TEST_SUITE_P(All, JournalModelItself,
                         ::testing::Values(DoomedJob::Fault::ClearsEarly, DoomedJob::Fault::CountsEarly,
                                           DoomedJob::Fault::NumberEarly));

}  // namespace
}  // namespace lockstep::shm
