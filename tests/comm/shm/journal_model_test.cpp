// Every interleaving of updates and changes of their journal with kills of all ranks, before each of their stores: a
// process that comes when all are gone finds whole updates, or finishes the one that was decided. In one check it is
// killed too, at its stores, after it has begun a journal of its own, and one more process comes.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "lockstep/comm/shm/protocols/update_protocol.h"
#include "lockstep/optim/kernels/undo_blocks.h"
#include "lockstep/optim/update/update_lane.h"
#include "tests/comm/shm/interleavings.h"

namespace lockstep::shm {
namespace {

// Places in the data of each process, of each rank, and of the whole job.
constexpr int kIsGone = 0, kRound = 1;
constexpr int kOwnLane = 2, kOwnUndo = 3, kOwnNote = 5, kOwnFactor = 6, kElement = 7;
constexpr int kUpdates = 8, kRanksOfJournal = 9;

struct AllKilled {};

struct DoomedJob {
  int ranks = 2;
  std::uint64_t updates = 1;
  bool changes_journal = true;  // after each update, as if a rank had been lost or had joined
  bool successor_dies = false;  // it makes one update
  enum class Fault { None, CountsEarly, KeepsWords, NumberEarly, AnyNote } fault = Fault::None;
};

std::uint64_t doomed_factor(std::uint64_t number) { return 10 + number; }

// The memory of a process that may be killed before each of its stores; a rank is also killed if another one was.
// Nobody reads a rank's words before it has ended, and all of its stores have taken effect then, so none of them is
// delayed.
class DoomedMemory {
 public:
  // @param rank  of this process, among `ranks`
  DoomedMemory(CheckedMemory& memory, int rank, int ranks, bool may_die)
      : memory_(memory), rank_(rank), ranks_(ranks), may_die_(may_die) {}
  DoomedMemory of(int ranks) const { return {memory_, rank_, ranks, may_die_}; }

  int rank() const { return rank_; }
  int world_size() const { return ranks_; }
  Word& data(int rank, int index) { return memory_.data(rank, index); }
  Word& own(int index) { return memory_.data(rank_, index); }
  Word& of_all(int index) { return memory_.data(0, index); }
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
  void await_end_of(int processes) {
    memory_.await(
        0,
        [&] {
          for (int each = 0; each < processes; ++each) {
            if (memory_.load(memory_.data(each, kIsGone)) == 0) return false;
          }
          return true;
        },
        [](int) { return false; });
  }
  [[noreturn]] void die() {
    memory_.store_in_order(memory_.data(memory_.rank(), kIsGone), 1);
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
  int rank_;
  int ranks_;
  bool may_die_;
};

// There are as many elements as ranks at first. A rank that is alone updates all of them. Each is a block.
struct DoomedElements {
  static std::size_t block(std::size_t) { return 1; }

  DoomedMemory& memory;
  int rank;
  int ranks;
  std::uint64_t number;
  std::uint64_t factor;

  std::uint64_t until(int elements) const { return ranks == 1 ? static_cast<std::uint64_t>(elements) : 1; }
  Word& word(std::size_t k) const { return memory.data(ranks == 1 ? static_cast<int>(k) : rank, kElement); }
  Word& old(std::size_t slot) const { return memory.data(rank, kOwnUndo + static_cast<int>(slot)); }
  Word& lane() const { return memory.data(rank, kOwnLane); }

  void save(std::size_t begin, std::size_t, std::size_t slot) const {
    memory.store(old(slot), memory.load(word(begin)));
  }
  void mark(std::size_t begin, std::size_t elements, std::size_t slot) const {
    memory.store(lane(), UndoMark{number, begin, elements, slot}.word());
  }
  // Takes back the block that was under way, and then updates the rest of the lane.
  void run(int all) const {
    UpdateLane<DoomedMemory> progress(memory, lane());
    const std::uint64_t done = progress.resume(
        number, [&](const UndoMark& seen) { memory.store(word(seen.position), memory.load(old(seen.slot))); });
    update_with_undo(*this, done, until(all),
                     [&](std::size_t at, std::size_t) { memory.store(word(at), 2 * memory.load(word(at)) + factor); });
  }
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
  DoomedRank(const DoomedMemory& memory, const DoomedJob& job) : job_(job), memory_(memory), journal_{memory_} {}

  void run() {
    if (memory_.rank() == 1) leave_words_of_another_training();
    change_journal();
    for (std::uint64_t number = 1; number <= job_.updates; ++number) {
      update(number);
      if (job_.changes_journal) change_journal();
    }
    memory_.die();
  }
  void change_journal() {
    if (job_.fault == DoomedJob::Fault::CountsEarly) memory_.store(journal_.ranks_word(), 2);
    meet();  // all have finished the update before
    if (job_.fault == DoomedJob::Fault::KeepsWords) {
      if (memory_.rank() == 0) memory_.store(journal_.ranks_word(), 2);
    } else {
      JournalChange<DoomedMemory, DoomedJournal>(memory_, journal_).begin([this] { meet(); });
    }
  }
  void update(std::uint64_t number) {
    meet();  // the agreement, and the norm
    UpdateDecision<DoomedMemory, DoomedJournal>(memory_, journal_).decide(number, [&] {
      memory_.store(memory_.own(kOwnFactor), doomed_factor(number));
    });
    DoomedElements{memory_, memory_.rank(), memory_.world_size(), number, doomed_factor(number)}.run(job_.ranks);
    const bool is_early = job_.fault == DoomedJob::Fault::NumberEarly;
    if (!is_early) meet();
    memory_.store(memory_.of_all(kUpdates), number);
    if (is_early) meet();
  }

 private:
  void meet() {
    if (memory_.world_size() > 1) memory_.meet(++round_);
  }
  // Its updates had the same numbers.
  void leave_words_of_another_training() {
    memory_.store(memory_.own(kOwnLane), UndoMark{1, 1, 0, 0}.word());
    memory_.store(memory_.own(kOwnNote), 1);
  }

  const DoomedJob& job_;
  DoomedMemory memory_;
  DoomedJournal journal_;
  std::uint64_t round_ = 0;
};

// As RecoverableUpdate::begin. @return  how many updates all elements have seen
std::uint64_t finish_decided_update(DoomedMemory& memory, const DoomedJob& job) {
  const std::uint64_t number = memory.load(memory.of_all(kUpdates)) + 1;
  const auto ranks = static_cast<int>(memory.load(memory.of_all(kRanksOfJournal)));
  if (ranks == 0) return number - 1;
  DoomedMemory of_journal = memory.of(ranks);
  DoomedJournal journal{of_journal};
  int by = UpdateDecision<DoomedMemory, DoomedJournal>(of_journal, journal).decided_by(number);
  if (job.fault == DoomedJob::Fault::AnyNote && memory.load(journal.word(0)) != 0) by = 0;
  if (by < 0) return number - 1;
  const std::uint64_t factor = memory.load(memory.data(by, kOwnFactor));
  memory.expect(factor == doomed_factor(number), "the note of another update");
  for (int rank = 0; rank < ranks; ++rank) {
    DoomedElements{memory, rank, ranks, number, factor}.run(job.ranks);
  }
  memory.store(memory.of_all(kUpdates), number);
  return number;
}

void run_successor(CheckedMemory& checked, const DoomedJob& job) {
  DoomedMemory memory(checked, 0, 1, true);
  memory.await_end_of(job.ranks);
  const std::uint64_t number = finish_decided_update(memory, job);
  DoomedRank rank(memory, job);
  rank.change_journal();
  rank.update(number + 1);
  memory.die();
}

void run_last_process(CheckedMemory& checked, const DoomedJob& job) {
  DoomedMemory memory(checked, 0, 1, false);
  memory.await_end_of(job.successor_dies ? job.ranks + 1 : job.ranks);
  const std::uint64_t updates = finish_decided_update(memory, job);
  std::uint64_t wanted = 0;
  for (std::uint64_t each = 1; each <= updates; ++each) wanted = 2 * wanted + doomed_factor(each);
  for (int element = 0; element < job.ranks; ++element) {
    memory.expect(memory.load(memory.data(element, kElement)) == wanted, "an element is half or twice updated");
  }
}

CheckResult check_doomed(const DoomedJob& job) {
  std::vector<RankProgram> programs;
  const auto mortal = [](const std::function<void(CheckedMemory&)>& body) {
    return [body](CheckedMemory& memory) {
      try {
        body(memory);
      } catch (const AllKilled&) {
      }
    };
  };
  for (int rank = 0; rank < job.ranks; ++rank) {
    programs.emplace_back(mortal([&job](CheckedMemory& memory) {
      DoomedRank({memory, memory.rank(), job.ranks, true}, job).run();
    }));
  }
  if (job.successor_dies) programs.emplace_back(mortal([&job](CheckedMemory& memory) { run_successor(memory, job); }));
  programs.emplace_back([&job](CheckedMemory& memory) { run_last_process(memory, job); });
  CheckOptions options;
  options.world_size = static_cast<int>(programs.size());
  options.most_states = 20'000'000;
  return check_all_interleavings(programs, options);
}

// Seconds: all orders of stores and deaths, some hundred thousand states.
TEST(JournalModel, WhoComesLastFindsWholeUpdates) {
  const CheckResult result = check_doomed(DoomedJob());
  EXPECT_EQ(result.failure, "");
  EXPECT_GT(result.endings, 100U);
}

// Seconds: all orders of stores and deaths of two updates.
TEST(JournalModel, AlsoWithoutAChangeOfRanks) {
  DoomedJob job;
  job.changes_journal = false;
  job.updates = 2;
  EXPECT_EQ(check_doomed(job).failure, "");
}

// Seconds: all orders of stores and two deaths.
TEST(JournalModel, AlsoIfWhoComesNextIsKilledToo) {
  DoomedJob job;
  job.changes_journal = false;
  job.successor_dies = true;
  EXPECT_EQ(check_doomed(job).failure, "");
}

class JournalModelItself : public ::testing::TestWithParam<DoomedJob::Fault> {};

TEST_P(JournalModelItself, FindsTheFault) {
  DoomedJob job;
  job.fault = GetParam();
  EXPECT_NE(check_doomed(job).failure, "");
}

INSTANTIATE_TEST_SUITE_P(All, JournalModelItself,
                         ::testing::Values(DoomedJob::Fault::CountsEarly, DoomedJob::Fault::KeepsWords,
                                           DoomedJob::Fault::NumberEarly, DoomedJob::Fault::AnyNote));

}  // namespace
}  // namespace lockstep::shm
