// Every interleaving of ranks that have more pending operations than shared memory has slots or boxes: the engines'
// queue over the engines' protocols.
#include <gtest/gtest.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/comm/shm/pending_operations.h"
#include "lockstep/comm/shm/protocols/slot_protocol.h"
#include "lockstep/comm/shm/protocols/tiny_protocol.h"
#include "tests/comm/shm/interleavings.h"

namespace lockstep::shm {
namespace {

struct PendingCall {
  Announcement announcement;
  std::uint64_t sequence = 0;
};

// One all-reduce of one element: rank 0's slice has it, in one chunk, and the others' slices have none.
struct PendingSum {
  explicit PendingSum(std::uint64_t number) : call{{{number, 7, 7}}, number} {}
  void end(const std::exception_ptr&) { over = true; }
  PendingCall call;
  bool all_entered = false;
  bool over = false;
};

std::uint64_t pending_value(int rank, std::uint64_t number) {
  return 1 + static_cast<std::uint64_t>(rank) + 10 * number;
}
std::uint64_t sum_of_all(int ranks, std::uint64_t number) {
  std::uint64_t sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += pending_value(rank, number);
  return sum;
}

// In place, as in AllReduce; or without the elements, to check more operations.
class SlotWays {
 public:
  SlotWays(CheckedMemory& memory, bool adds) : memory_(memory), adds_(adds), slots_(memory) {}

  bool may_enter(const PendingSum& sum) { return slots_.may_enter(sum.call.sequence); }
  void enter(PendingSum& sum) {
    const int index = static_cast<int>(sum.call.sequence);
    if (adds_) memory_.store(memory_.data(memory_.rank(), index), pending_value(memory_.rank(), sum.call.sequence));
    slots_.enter(sum.call, {kFirstSegment, 0});
  }
  void advance(PendingSum& sum) {
    sum.all_entered = sum.all_entered || slots_.all_entered(sum.call.sequence);
    if (sum.all_entered && adds_) work(sum);
  }
  bool step(PendingSum& sum) {
    advance(sum);
    if (!sum.all_entered) return false;
    const std::uint64_t number = sum.call.sequence;
    if (adds_) {
      if (!slots_.all_done(number, 1)) return false;
      memory_.expect(memory_.load(memory_.data(memory_.rank(), static_cast<int>(number))) ==
                         sum_of_all(memory_.world_size(), number),
                     "a sum is wrong");
    }
    for (int rank = 0; rank < memory_.world_size(); ++rank) {
      memory_.expect(slots_.announcement(number, rank) == sum.call.announcement, "a slot is another operation's");
    }
    slots_.retire(number);
    return true;
  }
  // The part that the engine's threads do outside of their lock.
  void await(const PendingSum& sum) {
    const std::uint64_t number = sum.call.sequence;
    const auto nobody = [](int) { return false; };
    if (!slots_.has_entered(number, memory_.rank())) {
      memory_.await_without_bell(
          sum.call, [&] { return slots_.is_slot_free(number); }, nobody);
    } else if (!sum.all_entered) {
      slots_.await_entered(sum.call);
    } else {
      slots_.await_done(sum.call, 1);
    }
  }

 private:
  void work(const PendingSum& sum) {
    slots_.work(sum.call.sequence, 1, memory_.rank(), [&](int owner, std::uint64_t) {
      if (owner != 0) return;
      const int index = static_cast<int>(sum.call.sequence);
      std::uint64_t all = 0;
      for (int rank = 0; rank < memory_.world_size(); ++rank) all += memory_.load(memory_.data(rank, index));
      for (int rank = 0; rank < memory_.world_size(); ++rank) memory_.store(memory_.data(rank, index), all);
    });
  }

  CheckedMemory& memory_;
  const bool adds_;
  SlotProtocol<CheckedMemory> slots_;
};

void finish_all(PendingOperations<SlotWays, PendingSum>& pending, SlotWays& ways) {
  for (pending.move_on(); !pending.empty(); pending.move_on()) ways.await(*pending.first());
}

// Starts `at_once` operations, waits for all of them, and repeats.
RankProgram starts(std::uint64_t operations, std::uint64_t at_once, bool adds) {
  return [=](CheckedMemory& memory) {
    SlotWays ways(memory, adds);
    PendingOperations<SlotWays, PendingSum> pending(ways);
    for (std::uint64_t number = 0; number < operations; ++number) {
      pending.add(std::make_shared<PendingSum>(number));
      pending.move_on();
      if ((number + 1) % at_once == 0) finish_all(pending, ways);
    }
    finish_all(pending, ways);
  };
}

CheckOptions with_slots(std::uint64_t slots) {
  CheckOptions options;
  options.slots = slots;
  options.real_slots = slots;
  return options;
}

TEST(PendingModel, ManyPendingAndOneLate) {
  struct Case {
    std::uint64_t slots;
    std::uint64_t operations;
    bool adds;
  };
  // The interleavings include every choice of the late rank.
  std::vector<Case> cases = {{1, 2, false}};
  if (env_bool("LOCKSTEP_LONG_TESTS").value_or(false)) {  // one to two minutes
    for (const Case& c : {Case{1, 3, false}, Case{2, 3, false}, Case{1, 2, true}}) cases.push_back(c);
  }
  for (const Case& c : cases) {
    SCOPED_TRACE(std::to_string(c.slots) + " slots, " + std::to_string(c.operations) + " operations");
    for (const std::uint64_t of_the_other : {c.operations, std::uint64_t{1}}) {  // at once
      const CheckResult result = check_all_interleavings(
          {starts(c.operations, c.operations, c.adds), starts(c.operations, of_the_other, c.adds)},
          with_slots(c.slots));
      EXPECT_EQ(result.failure, "");
      EXPECT_GT(result.endings, 0U);
    }
  }
}

TEST(PendingModelItself, FindsARankThatWaitsForASlotThatItHoldsItself) {
  // It enters each operation when it is started, as an earlier engine did.
  const RankProgram impatient = [](CheckedMemory& memory) {
    SlotWays ways(memory, true);
    std::vector<PendingSum> sums;
    for (std::uint64_t number = 0; number < 2; ++number) {
      sums.emplace_back(number);
      ways.enter(sums.back());
    }
    for (PendingSum& sum : sums) {
      while (!ways.step(sum)) ways.await(sum);
    }
  };
  const CheckResult result = check_all_interleavings({impatient, impatient}, with_slots(1));
  EXPECT_NE(result.failure.find("for ever"), std::string::npos) << result.failure;
}

// Tiny operations: any number may be started, and kTinyAhead have a box.
struct TinyMessage {
  explicit TinyMessage(std::uint64_t n) : number(n) {}
  void end(const std::exception_ptr&) { over = true; }
  std::uint64_t number;
  bool over = false;
};

class TinyWays {
 public:
  explicit TinyWays(CheckedMemory& memory) : memory_(memory), tiny_(memory) {}
  bool may_enter(const TinyMessage&) { return tiny_.may_send(); }
  void enter(const TinyMessage& message) {
    const auto value = static_cast<std::byte>(1 + message.number);
    tiny_.send({}, &value, 1);
  }
  void advance(const TinyMessage&) {}
  bool step(const TinyMessage& message) {
    if (!tiny_.all_arrived(message.number)) return false;
    for (int rank = 0; rank < memory_.world_size(); ++rank) {
      memory_.expect(memory_.read_payload(memory_.tiny_box(message.number, rank)) == 1 + message.number,
                     "a message is another one");
    }
    tiny_.finish_read();
    return true;
  }
  void await(const TinyMessage& message) { tiny_.await_arrived(PendingCall{}, message.number); }

 private:
  CheckedMemory& memory_;
  TinyProtocol<CheckedMemory> tiny_;
};

TEST(PendingModel, MoreTinyOnesThanBoxes) {
  const RankProgram program = [](CheckedMemory& memory) {
    TinyWays ways(memory);
    PendingOperations<TinyWays, TinyMessage> pending(ways);
    for (std::uint64_t number = 0; number < kTinyAhead + 2; ++number) {
      pending.add(std::make_shared<TinyMessage>(number));
      pending.move_on();
    }
    for (; !pending.empty(); pending.move_on()) ways.await(*pending.first());
  };
  const CheckResult result = check_all_interleavings({program, program});
  EXPECT_EQ(result.failure, "");
  EXPECT_GT(result.endings, 0U);
}

}  // namespace
}  // namespace lockstep::shm
