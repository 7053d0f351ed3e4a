// Every interleaving of ranks that use memory in turns, and of the last one, which frees it in between.
//
// Seen to fail with each of these changes: the last one is found by a load and a store; no barrier before the memory is
// used again; the count is taken before the memory was read.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/comm/shm/protocols/leaving_protocol.h"
#include "lockstep/comm/shm/protocols/round_protocol.h"
#include "tests/comm/shm/interleavings.h"

namespace lockstep::shm {
namespace {

struct TurnCall {
  Announcement announcement;
  std::uint64_t sequence = 0;
};

enum class Fault { None, CountsByLoad, UsesAtOnce, LeavesBeforeItReads };

bool leaves_last(CheckedMemory& memory, Word& left, Fault fault) {
  if (fault != Fault::CountsByLoad) return LeavingProtocol<CheckedMemory>(memory).leave(left);
  const std::uint64_t count = memory.load(left) + 1;
  memory.store(left, count);
  return count % static_cast<std::uint64_t>(memory.world_size()) == 0;
}

// data(rank, 0) is what the rank brings into the memory that all read; 0 is memory that was freed.
void use_in_turns(CheckedMemory& memory, int turns, Fault fault) {
  RoundProtocol<CheckedMemory> barrier(memory);
  const int ranks = memory.world_size();
  Word& left = memory.data(0, 1);
  Word& freed = memory.data(0, 2);
  for (std::uint64_t turn = 1; turn <= static_cast<std::uint64_t>(turns); ++turn) {
    if (fault != Fault::UsesAtOnce) {
      barrier.pass(TurnCall());
      memory.expect(memory.load(freed) == turn - 1, "the memory was not freed once in each turn");
    }
    memory.store(memory.data(memory.rank(), 0), turn);
    barrier.pass(TurnCall());
    bool is_last = fault == Fault::LeavesBeforeItReads && leaves_last(memory, left, fault);
    for (int rank = 0; rank < ranks; ++rank) {
      memory.expect(memory.load(memory.data(rank, 0)) == turn,
                    "a rank read memory that was freed or is of another turn");
    }
    is_last = is_last || (fault != Fault::LeavesBeforeItReads && leaves_last(memory, left, fault));
    if (!is_last) continue;
    for (int rank = 0; rank < ranks; ++rank) memory.store(memory.data(rank, 0), 0);
    memory.store(freed, turn);
  }
}

std::string failure_in_turns(int ranks, int turns, Fault fault) {
  CheckOptions options;
  options.world_size = ranks;
  const RankProgram program = [=](CheckedMemory& memory) { use_in_turns(memory, turns, fault); };
  return check_all_interleavings(std::vector<RankProgram>(static_cast<std::size_t>(ranks), program), options).failure;
}

TEST(LeavingModel, TheLastRankFreesAndNobodyReadsWhatIsFreed) {
  EXPECT_EQ(failure_in_turns(2, 3, Fault::None), "");
  EXPECT_EQ(failure_in_turns(3, 2, Fault::None), "");
}

TEST(LeavingModelItself, FindsFaults) {
  for (const Fault fault : {Fault::CountsByLoad, Fault::UsesAtOnce, Fault::LeavesBeforeItReads}) {
    EXPECT_NE(failure_in_turns(2, 2, fault), "") << static_cast<int>(fault);
  }
}

}  // namespace
}  // namespace lockstep::shm
