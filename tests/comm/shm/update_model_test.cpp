// Every interleaving of an update that ranks share with kills at every access: survivors finish it, or nothing of it
// has happened.
//
// Seen to fail with each of these changes: an update without a draft; a mark before the draft is complete; a draft that
// others do not copy; a decision that is written down after the first chunk, or before its content.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/comm/shm/protocols/update_protocol.h"
#include "tests/comm/shm/interleavings.h"

namespace lockstep::shm {
namespace {

// Places in a rank's data.
constexpr int kDead = 0, kEntered = 1, kArrived = 2, kLeft = 3, kLevel = 4, kLane = 5, kDraft = 6, kNote = 8,
              kFactor = 9, kChunks = 10;
constexpr std::uint64_t kAllPassed = 99;

struct Killed {};

struct Job {
  int ranks = 2;
  std::uint64_t updates = 1;
  std::uint64_t chunks = 1;  // of each rank
  int words = 2;             // of each chunk
  int first_immortal = 1;    // ranks below it may be killed
  bool second_late = false;  // rank 1 only while it recovers
  enum class Fault { None, NoDraft, MarkFirst, NotAgain, LateDecision, WordFirst } fault = Fault::None;
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

// The update of each word of a chunk depends on its old value.
struct ModelChunks {
  MortalMemory& memory;
  int owner;
  std::uint64_t factor;
  const Job& job;

  Word& word(std::uint64_t k, int i) const { return memory.data(owner, kChunks + 2 * static_cast<int>(k) + i); }
  std::uint64_t updated(std::uint64_t k, int i) const { return 2 * memory.load(word(k, i)) + factor; }
  void draft(std::uint64_t k) const {
    if (job.fault == Job::Fault::NoDraft) return;
    for (int i = 0; i < job.words; ++i) memory.store(memory.data(owner, kDraft + i), updated(k, i));
  }
  void publish(std::uint64_t k) const {
    if (job.fault == Job::Fault::NotAgain && owner != memory.rank()) return;
    for (int i = 0; i < job.words; ++i) {
      const bool in_place = job.fault == Job::Fault::NoDraft;
      memory.store(word(k, i), in_place ? updated(k, i) : memory.load(memory.data(owner, kDraft + i)));
    }
  }
};

// A lane whose mark precedes the draft, to see that the check finds it.
void run_mark_first(MortalMemory& memory, int owner, std::uint64_t number, const ModelChunks& chunks) {
  Word& word = memory.data(owner, kLane);
  const std::uint64_t seen = memory.load(word);
  if (seen == ((number << 32) | 2)) return;
  if (seen != ((number << 32) | 1)) {
    memory.store_in_order(word, (number << 32) | 1);
    chunks.draft(0);
  }
  chunks.publish(0);
  memory.store_in_order(word, (number << 32) | 2);
}

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
    const ModelChunks chunks{memory_, owner, factor, job_};
    if (job_.fault == Job::Fault::MarkFirst) return run_mark_first(memory_, owner, number_, chunks);
    UpdateLane<MortalMemory> lane(memory_, memory_.data(owner, kLane));
    if (recovers && lane.is_done(number_, job_.chunks)) return;
    lane.run(number_, job_.chunks, chunks);
    memory_.expect(lane.is_done(number_, job_.chunks), "the lane is not done after it was run");
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
  // Every chunk has had exactly these updates.
  void check(std::uint64_t updates) {
    std::uint64_t wanted = 0;
    for (std::uint64_t number = 1; number <= updates; ++number) wanted = 2 * wanted + factor_of(number);
    for (int rank = 0; rank < job_.ranks; ++rank) {
      for (std::uint64_t k = 0; k < job_.chunks; ++k) {
        for (int i = 0; i < job_.words; ++i) {
          const int index = kChunks + 2 * static_cast<int>(k) + i;
          memory_.expect(memory_.load(memory_.data(rank, index)) == wanted, "a chunk is half or twice updated");
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
  job.chunks = 2;
  const CheckResult result = check_update(job);
  EXPECT_EQ(result.failure, "");
  EXPECT_GT(result.endings, 100U);
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
  job.words = 1;
  job.second_late = !env_bool("LOCKSTEP_LONG_TESTS").value_or(false);  // else a minute
  EXPECT_EQ(check_update(job).failure, "");
}

class UpdateModelItself : public ::testing::TestWithParam<Job::Fault> {};

TEST_P(UpdateModelItself, FindsTheFault) {
  Job job;
  job.fault = GetParam();
  job.updates = 2;
  EXPECT_NE(check_update(job).failure, "");
}

INSTANTIATE_TEST_SUITE_P(All, UpdateModelItself,
                         ::testing::Values(Job::Fault::NoDraft, Job::Fault::MarkFirst, Job::Fault::NotAgain,
                                           Job::Fault::LateDecision, Job::Fault::WordFirst));

}  // namespace
}  // namespace lockstep::shm
