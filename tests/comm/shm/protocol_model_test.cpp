// Every interleaving of the protocols, for two and three ranks: the very templates that the engines run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lockstep/comm/shm/round_protocol.h"
#include "lockstep/comm/shm/sleep_protocol.h"
#include "lockstep/comm/shm/slot_protocol.h"
#include "lockstep/comm/shm/tiny_protocol.h"
#include "lockstep/comm/shm/work_protocol.h"
#include "tests/comm/shm/interleavings.h"

namespace lockstep::shm {
namespace {

struct ModelCall {
  Announcement announcement;
  std::uint64_t sequence = 0;
};

// What rank has in element i before operation s; all sums differ.
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
  bool help;   // take chunks of others, or not, as it happens
  std::uint64_t slots;
  std::uint64_t real_slots;
  friend std::ostream& operator<<(std::ostream& out, const InPlaceCase& c) { return out << c.name; }
};

void reduce_chunk(CheckedMemory& memory, int element) {
  std::uint64_t sum = 0;
  for (int rank = 0; rank < memory.world_size(); ++rank) sum += memory.load(memory.data(rank, element));
  for (int rank = 0; rank < memory.world_size(); ++rank) memory.store(memory.data(rank, element), sum);
}

// All-reduces in place, one after the other on the same memory.
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

INSTANTIATE_TEST_SUITE_P(Table, InPlaceModel,
                         ::testing::Values(InPlaceCase{"two_ranks_one_slot", 2, 3, 1, false, 1, 1}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace lockstep::shm
