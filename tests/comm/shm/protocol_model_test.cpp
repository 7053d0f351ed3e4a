// Every interleaving of the protocols, for two and three ranks, on the templates that the engines run.
//
// Seen to fail with each of these changes to them: a chunk taken by a load and a store instead of the exchange; a slot
// used again without waiting; a sum of finished chunks that may be one short; a flag for sleepers stored without the
// fence; a round that may be one behind. Many pending operations are in pending_model_test.cpp, and the end of a group
// in work_model_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/comm/shm/protocols/round_protocol.h"
#include "lockstep/comm/shm/protocols/sleep_protocol.h"
#include "lockstep/comm/shm/protocols/slot_protocol.h"
#include "lockstep/comm/shm/protocols/tiny_protocol.h"
#include "tests/comm/shm/interleavings.h"

namespace lockstep::shm {
namespace {

struct ModelCall {
  Announcement announcement;
  std::uint64_t sequence = 0;
};

// The value of rank `rank` in element i before operation s; all sums differ.
std::uint64_t before(int rank, int i, std::uint64_t s) {
  return 1 + static_cast<std::uint64_t>(rank) * 10 + static_cast<std::uint64_t>(i) * 100 + s * 1000;
}
std::uint64_t sum_of(int ranks, int i, std::uint64_t s) {
  std::uint64_t sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += before(rank, i, s);
  return sum;
}

struct InPlaceCase {
  const char* name;
  int ranks;
  int operations;
  int chunks;  // of a slice, each one element
  bool help;   // take chunks of others; the check tries both
  std::uint64_t slots;
  std::uint64_t real_slots;
  friend std::ostream& operator<<(std::ostream& out, const InPlaceCase& c) { return out << c.name; }
};

void reduce_chunk(CheckedMemory& memory, int element) {
  std::uint64_t sum = 0;
  for (int rank = 0; rank < memory.world_size(); ++rank) sum += memory.load(memory.data(rank, element));
  for (int rank = 0; rank < memory.world_size(); ++rank) memory.store(memory.data(rank, element), sum);
}

// All-reduces in place, one after the other in one memory.
void all_reduce_in_place(CheckedMemory& memory, const InPlaceCase& c) {
  SlotProtocol<CheckedMemory> slots(memory);
  const int elements = c.chunks * c.ranks;
  const auto chunks = static_cast<std::uint64_t>(c.chunks);
  for (std::uint64_t s = 0; s < static_cast<std::uint64_t>(c.operations); ++s) {
    for (int i = 0; i < elements; ++i) memory.store(memory.data(memory.rank(), i), before(memory.rank(), i, s));
    const ModelCall call{{{s, 7, 7}}, s};
    slots.enter(call, {kFirstSegment, 0});
    slots.await_entered(call);
    for (int rank = 0; rank < c.ranks; ++rank) {
      memory.expect(slots.announcement(s, rank) == call.announcement, "the announcement is of another operation");
    }
    const auto body = [&](int owner, std::uint64_t chunk) {
      reduce_chunk(memory, owner * c.chunks + static_cast<int>(chunk));
    };
    slots.work(s, chunks, memory.rank(), body);
    if (c.help && memory.choose(2) == 1) {
      for (int step = 1; step < c.ranks; ++step) slots.work(s, chunks, (memory.rank() + step) % c.ranks, body);
    }
    slots.await_done(call, chunks);
    for (int i = 0; i < elements; ++i) {
      memory.expect(memory.load(memory.data(memory.rank(), i)) == sum_of(c.ranks, i, s), "a sum is wrong");
    }
    slots.retire(s);
  }
}

CheckResult check(const InPlaceCase& c) {
  CheckOptions options;
  options.world_size = c.ranks;
  options.slots = c.slots;
  options.real_slots = c.real_slots;
  const RankProgram program = [&c](CheckedMemory& memory) { all_reduce_in_place(memory, c); };
  return check_all_interleavings(std::vector<RankProgram>(static_cast<std::size_t>(c.ranks), program), options);
}

class InPlaceModel : public ::testing::TestWithParam<InPlaceCase> {};

TEST_P(InPlaceModel, ReducesOnceWhoeverWorks) {
  const CheckResult result = check(GetParam());
  EXPECT_EQ(result.failure, "");
  EXPECT_GT(result.endings, 0U);
}

// The last cases take 4 and 20 s: they run in full only on request.
std::vector<InPlaceCase> in_place_cases() {
  std::vector<InPlaceCase> all = {{"two_ranks_one_slot", 2, 3, 1, false, 1, 1},
                                  {"two_ranks_two_slots", 2, 3, 1, false, 2, 2},
                                  {"two_ranks_two_chunks_help", 2, 1, 2, true, 1, 1},
                                  {"two_ranks_twice_help", 2, 2, 1, true, 1, 1},
                                  {"three_ranks", 3, 1, 1, false, 1, 1}};
  if (env_bool("LOCKSTEP_LONG_TESTS").value_or(false)) {
    all.push_back({"three_ranks_help", 3, 1, 1, true, 1, 1});
    all.push_back({"three_ranks_twice", 3, 2, 1, false, 1, 1});
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Table, InPlaceModel, ::testing::ValuesIn(in_place_cases()),
                         [](const auto& test) { return test.param.name; });

TEST(InPlaceModelItself, FindsASlotThatIsUsedAgainTooEarly) {
  // The protocol assumes two slots, and there is one.
  EXPECT_NE(check({"", 2, 2, 1, false, 2, 1}).failure, "");
}

TEST(InPlaceModelItself, FindsARankThatDoesNotWaitForTheOthers) {
  for (const bool forgets_entry : {true, false}) {
    const RankProgram program = [forgets_entry](CheckedMemory& memory) {
      SlotProtocol<CheckedMemory> slots(memory);
      const ModelCall call{{{0, 7, 7}}, 0};
      memory.store(memory.data(memory.rank(), 0), before(memory.rank(), 0, 0));
      memory.store(memory.data(memory.rank(), 1), before(memory.rank(), 1, 0));
      slots.enter(call, {kFirstSegment, 0});
      if (!forgets_entry) slots.await_entered(call);
      slots.work(0, 1, memory.rank(), [&](int owner, std::uint64_t) { reduce_chunk(memory, owner); });
      if (forgets_entry) slots.await_done(call, 1);
      for (int i = 0; i < 2; ++i) {
        memory.expect(memory.load(memory.data(memory.rank(), i)) == sum_of(2, i, 0), "a sum is wrong");
      }
    };
    EXPECT_NE(check_all_interleavings({program, program}).failure, "") << forgets_entry;
  }
}

// A rank that may be ahead sends messages of one value; the receivers add them up.
CheckResult check_tiny(std::uint64_t boxes) {
  CheckOptions options;
  options.tiny_boxes = boxes;
  const RankProgram program = [](CheckedMemory& memory) {
    TinyProtocol<CheckedMemory> tiny(memory);
    std::uint64_t read = 0;
    const auto read_one = [&] {
      const ModelCall call;
      tiny.await_arrived(call, read);
      for (int rank = 0; rank < 2; ++rank) {
        memory.expect(memory.read_payload(memory.tiny_box(read, rank)) == 1 + read, "a message is another one");
      }
      tiny.finish_read();
      ++read;
    };
    for (std::uint64_t number = 0; number < 5; ++number) {
      while (!tiny.may_send()) read_one();
      const auto value = static_cast<std::byte>(1 + number);
      tiny.send({}, &value, 1);
    }
    while (read < 5) read_one();
  };
  return check_all_interleavings({program, program}, options);
}

TEST(TinyModel, NoMessageIsOverwrittenBeforeItIsRead) {
  const CheckResult result = check_tiny(kTinyBoxes);
  EXPECT_EQ(result.failure, "");
  EXPECT_GT(result.endings, 0U);
}
TEST(TinyModelItself, FindsTooFewBoxes) { EXPECT_NE(check_tiny(kTinyAhead).failure, ""); }

// Pieces pass through staging buffers that are used in turn.
CheckResult check_rounds(int ranks, int buffers) {
  CheckOptions options;
  options.world_size = ranks;
  const RankProgram program = [=](CheckedMemory& memory) {
    RoundProtocol<CheckedMemory> rounds(memory);
    for (int piece = 0; piece < 3; ++piece) {
      memory.store(memory.data(memory.rank(), piece % buffers), static_cast<std::uint64_t>(piece + 1));
      rounds.pass(ModelCall{});
      for (int rank = 0; rank < ranks; ++rank) {
        memory.expect(memory.load(memory.data(rank, piece % buffers)) == static_cast<std::uint64_t>(piece + 1),
                      "a piece is another one");
      }
    }
  };
  return check_all_interleavings(std::vector<RankProgram>(static_cast<std::size_t>(ranks), program), options);
}

TEST(RoundModel, TwoBuffersAreEnough) {
  EXPECT_EQ(check_rounds(2, 2).failure, "");
  EXPECT_EQ(check_rounds(3, 2).failure, "");
}
TEST(RoundModelItself, FindsThatOneBufferIsNot) { EXPECT_NE(check_rounds(2, 1).failure, ""); }

// The last rank sleeps until each other one has stored; only the rank that sees all stores wakes it.
CheckResult check_sleep(int ranks) {
  CheckOptions options;
  options.world_size = ranks;
  std::vector<RankProgram> programs(static_cast<std::size_t>(ranks), [=](CheckedMemory& memory) {
    SleepProtocol<CheckedMemory> sleeps(memory);
    const auto all_stored = [&] {
      for (int rank = 0; rank + 1 < ranks; ++rank) {
        if (memory.load(memory.data(rank, 0)) == 0) return false;
      }
      return true;
    };
    if (memory.rank() + 1 < ranks) {
      sleeps.publish(memory.data(memory.rank(), 0), 1, all_stored);
    } else {
      while (!sleeps.sleep(all_stored)) {
      }
    }
  });
  return check_all_interleavings(programs, options);
}

TEST(SleepModel, NoWakeUpIsLost) {
  EXPECT_EQ(check_sleep(2).failure, "");
  EXPECT_EQ(check_sleep(3).failure, "");
}

TEST(SleepModelItself, FindsAWakeUpThatIsLost) {
  // The store may take effect after the check for sleepers.
  const RankProgram storer = [](CheckedMemory& memory) {
    memory.store(memory.data(0, 0), 1);
    if (memory.load(memory.header().sleepers) != 0) SleepProtocol<CheckedMemory>(memory).wake_sleepers();
  };
  const RankProgram waiter = [](CheckedMemory& memory) {
    SleepProtocol<CheckedMemory> sleeps(memory);
    while (!sleeps.sleep([&] { return memory.load(memory.data(0, 0)) != 0; })) {
    }
  };
  EXPECT_NE(check_all_interleavings({storer, waiter}).failure, "");
}

}  // namespace
}  // namespace lockstep::shm
