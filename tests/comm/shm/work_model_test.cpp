// Every interleaving of the end of a group with ranks that still work on its memory.
//
// Seen to fail with each of these changes: a rank that sets its mark without the fence; one word for all threads of a
// rank, which the first thread that ends clears.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "lockstep/comm/shm/protocols/work_protocol.h"
#include "tests/comm/shm/interleavings.h"

namespace lockstep::shm {
namespace {

// Rank 0 ends the group and then takes its memory back; the others write there while they may.
TEST(WorkModel, NobodyWritesAfterTheGroupHasEnded) {
  for (const int ranks : {2, 3}) {
    CheckOptions options;
    options.world_size = ranks;
    const RankProgram program = [=](CheckedMemory& memory) {
      WorkProtocol<CheckedMemory> work(memory);
      if (memory.rank() != 0) {
        if (!work.begin()) return;
        memory.store(memory.data(0, memory.rank()), 1);
        work.end();
        return;
      }
      work.break_group();
      for (int other = 1; other < ranks; ++other) {
        if (work.is_working(other)) return;  // it would check again, which is another execution
      }
      for (int other = 1; other < ranks; ++other) {
        const std::uint64_t seen = memory.load(memory.data(0, other));
        memory.expect(memory.load(memory.data(0, other)) == seen, "memory changed after it was taken back");
      }
    };
    EXPECT_EQ(
        check_all_interleavings(std::vector<RankProgram>(static_cast<std::size_t>(ranks), program), options).failure,
        "");
  }
}

// Ranks 1 and 2 are threads of one rank and share its memory cell: the first that ends must not clear the other's mark.
CheckResult check_threads_of_a_rank(bool one_word_for_both) {
  CheckOptions options;
  options.world_size = 3;
  const RankProgram owner = [](CheckedMemory& memory) {
    WorkProtocol<CheckedMemory> work(memory);
    work.break_group();
    if (work.is_working(1)) return;
    for (const int index : {1, 2}) {
      const std::uint64_t seen = memory.load(memory.data(0, index));
      memory.expect(memory.load(memory.data(0, index)) == seen, "memory changed after it was taken back");
    }
  };
  const auto thread = [=](int index) -> RankProgram {
    return [=](CheckedMemory& memory) {
      memory.act_for(1);
      WorkProtocol<CheckedMemory> work(memory);
      if (!work.begin()) return;
      memory.store(memory.data(0, index), 1);
      one_word_for_both ? memory.store(memory.cell(1).working, 0) : work.end();
    };
  };
  return check_all_interleavings({owner, thread(1), thread(2)}, options);
}

TEST(WorkModel, EachThreadOfARankCounts) { EXPECT_EQ(check_threads_of_a_rank(false).failure, ""); }
TEST(WorkModelItself, FindsAThreadThatEndsForAnother) { EXPECT_NE(check_threads_of_a_rank(true).failure, ""); }

TEST(WorkModelItself, FindsAWriterThatLooksTooEarly) {
  const RankProgram owner = [](CheckedMemory& memory) {
    WorkProtocol<CheckedMemory> work(memory);
    work.break_group();
    if (work.is_working(1)) return;
    const std::uint64_t seen = memory.load(memory.data(0, 1));
    memory.expect(memory.load(memory.data(0, 1)) == seen, "memory changed after it was taken back");
  };
  const RankProgram writer = [](CheckedMemory& memory) {
    memory.store(memory.cell(1).working, 1);  // not in order, so the load below may overtake it
    if (memory.load(memory.header().broken) == 0) memory.store(memory.data(0, 1), 1);
    memory.store(memory.cell(1).working, 0);
  };
  EXPECT_NE(check_all_interleavings({owner, writer}).failure, "");
}

}  // namespace
}  // namespace lockstep::shm
