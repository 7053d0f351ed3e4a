// Ranks that die, stop, never arrive or give up: the others get an error that names them, and no rank hangs or aborts.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <regex>
#include <thread>

#include "lockstep/base/error.h"
#include "tests/comm/contract.h"
#include "tests/comm/meeting.h"
#include "tests/comm/waiting_placements.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::string happened_in(const RankOutcome& end) { return end.text.substr(0, end.text.find("\n  where:")); }

// The words of a failure are the same over every engine: every rank except `rank` threw `pattern`, in which RANK stands
// for the name of that rank, and blames it as data.
void expect_words(const std::vector<RankOutcome>& ends, int rank, std::string pattern,
                  const std::vector<FailureCause::Kind>& kinds) {
  const std::string name = "rank " + std::to_string(rank) + " on [^ ]+( \\(process [0-9]+\\))?";
  pattern.replace(pattern.find("RANK"), 4, name);
  const std::regex words(pattern + "( \\(found by rank [0-9]+\\))?");
  for (std::size_t other = 0; other < ends.size(); ++other) {
    if (static_cast<int>(other) == rank) continue;
    EXPECT_TRUE(std::regex_match(happened_in(ends[other]), words)) << ends[other].text << "\nis not " << pattern;
    ASSERT_TRUE(ends[other].cause) << ends[other].text;
    EXPECT_EQ(std::count(kinds.begin(), kinds.end(), ends[other].cause->kind), 1) << ends[other].text;
    EXPECT_EQ(ends[other].cause->rank, rank) << ends[other].text;
  }
}

const std::string kLastSeen = " \\(last seen entering all_reduce #[34] \\(sum\\) of 1000 float\\)";
const std::string kOperation = "all_reduce #[45] \\(sum\\) of 1000 float";

// Every rank except `lost` failed with an error that names it.
void expect_named(const std::vector<RankOutcome>& ends, int lost, bool timed_out) {
  const std::string name = "rank " + std::to_string(lost) + " on ";
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    if (static_cast<int>(rank) == lost) continue;
    EXPECT_TRUE(ends[rank].failed) << "rank " << rank;
    EXPECT_EQ(ends[rank].timed_out, timed_out) << ends[rank].text;
    EXPECT_EQ(ends[rank].signal, 0) << "rank " << rank;
    EXPECT_NE(happened_in(ends[rank]).find(name), std::string::npos) << ends[rank].text;
  }
}

class LosingARank : public Contract {};
INSTANTIATE_TEST_SUITE_P(Engines, LosingARank, ::testing::ValuesIn(placements_for_failures()), placement_name);

TEST_P(LosingARank, ThatThrowsBetweenOperations) {
  const int lost = GetParam().world_size - 1;
  const auto ends = ends_of([&](Communicator& group) {
    for (int step = 0; step < 10; ++step) {
      if (group.rank() == lost && step == 5) throw std::runtime_error("the sixth batch is broken");
      at::Tensor tensor = ones(1000);
      group.all_reduce(tensor);
    }
  });
  EXPECT_EQ(ends[static_cast<std::size_t>(lost)].text, "the sixth batch is broken");
  expect_named(ends, lost, false);
}

class LateCaller : public Contract {};
INSTANTIATE_TEST_SUITE_P(Engines, LateCaller, ::testing::ValuesIn(placements_for_timeouts()), placement_name);

// A second, because the barrier must not take as long, however busy the machine is.
TEST_P(LateCaller, ThatNeverCalls) {
  const int late = GetParam().world_size - 1;
  RanksOptions options;
  options.timeout = milliseconds(1000);
  const auto ends = ends_of(
      [&](Communicator& group) {
        meet_in_store(group, "before the barrier");
        group.barrier();
        Store& store = *group.membership().store;
        const std::string done = "done/";
        if (group.rank() == late) {
          for (int rank = 0; rank < late; ++rank) {
            store.get(done + std::to_string(rank), Deadline::after(seconds(60)));
          }
          return;
        }
        at::Tensor tensor = ones(1000);
        try {
          group.all_reduce(tensor);
        } catch (const Error&) {
          store.set(done + std::to_string(group.rank()), "1");
          throw;
        }
      },
      options);
  expect_named(ends, late, true);
  expect_words(ends, late,
               "all_reduce #1 \\(sum\\) of 1000 float timed out after [0-9.]+ s: RANK has not arrived "
               "\\(last seen entering barrier #0\\)",
               {FailureCause::Kind::Timeout});
}

TEST_P(LosingARank, ThatLeavesTheLoopEarly) {
  const int early = GetParam().world_size - 1;
  const auto ends = ends_of([&](Communicator& group) {
    for (int step = 0; step < 10; ++step) {
      if (group.rank() == early && step == 5) return;
      at::Tensor tensor = ones(1000);
      group.all_reduce(tensor);
    }
  });
  EXPECT_FALSE(ends[static_cast<std::size_t>(early)].failed);
  expect_words(ends, early, "RANK left the group before all_reduce #5 \\(sum\\) of 1000 float" + kLastSeen,
               {FailureCause::Kind::PeerLeft});
}

TEST_P(LosingARank, IsNotOneThatHasDoneItsPart) {
  // The last rank sends its share and leaves. The first one receives the others' shares much later, and still succeeds.
  each_rank([](Communicator& group) {
    Store& store = *group.membership().store;
    const int last = group.world_size() - 1;
    at::Tensor out = group.rank() == 0 ? at::zeros({3 * group.world_size()}) : at::Tensor();
    if (group.rank() == last) store.set("gone soon", "1");
    if (group.rank() > 0 && group.rank() < last) {
      store.get("gone soon", Deadline::after(seconds(60)));
      std::this_thread::sleep_for(milliseconds(150));  // the test is about being late: for thirty looks of a supervisor
    }
    group.gather(out, at::full({3}, group.rank(), at::kFloat), 0);
    if (group.rank() == 0) {
      EXPECT_TRUE(out.equal(at::arange(group.world_size(), at::kFloat).repeat_interleave(3)));
    }
  });
}

TEST_P(LosingARank, ThatAborts) {
  const auto ends = ends_of([](Communicator& group) {
    group.barrier();
    Store& store = *group.membership().store;
    if (group.rank() == 0) {
      // After the others have begun to wait, or just before: both must work.
      store.wait({"begun/" + std::to_string(group.world_size() - 1)}, Deadline::after(seconds(60)));
      group.abort("the operator pulled the plug");
      EXPECT_THROW(group.barrier(), Error);
      throw std::runtime_error("aborted");
    }
    store.set("begun/" + std::to_string(group.rank()), "1");
    at::Tensor tensor = ones(2000000);
    group.all_reduce(tensor);
  });
  for (std::size_t rank = 1; rank < ends.size(); ++rank) {
    EXPECT_TRUE(ends[rank].failed);
    EXPECT_FALSE(ends[rank].timed_out) << ends[rank].text;
  }
  expect_words(ends, 0, "RANK ended the group: the operator pulled the plug", {FailureCause::Kind::AbortedByPeer});
}

TEST_P(LosingARank, AbortFromAnotherThreadEndsAWait) {
  const auto ends = ends_of([](Communicator& group) {
    group.barrier();
    meet_in_store(group, "out of the barrier");
    Store& store = *group.membership().store;
    if (group.rank() != 0) {
      store.get("out", Deadline::after(seconds(60)));
      return;
    }
    std::thread other([&] { group.abort("enough waited"); });
    at::Tensor tensor = ones(10);
    std::string text;
    try {
      group.all_reduce(tensor);
    } catch (const Error& error) {
      text = error.happened();
    }
    other.join();
    store.set("out", "1");
    EXPECT_NE(text.find("enough waited"), std::string::npos) << text;
  });
  for (const RankOutcome& end : ends) EXPECT_FALSE(end.failed) << end.text;
}

TEST_P(LosingARank, DestroyedWhileAnOperationIsUnderWay) {
  const auto ends = ends_of([](Communicator& group) {
    at::Tensor tensor = ones(100000);
    if (group.rank() == 0) {
      const auto work = group.all_reduce_async(tensor);
      (void)work;  // the communicator is destroyed before it has ended
      return;
    }
    group.recv(tensor, 0);
  });
  EXPECT_FALSE(ends[0].failed) << ends[0].text;
  for (std::size_t rank = 1; rank < ends.size(); ++rank) EXPECT_TRUE(ends[rank].failed);
}

TEST_P(LosingARank, EndsOperationsThatWaitInLine) {
  const auto ends = ends_of([](Communicator& group) {
    Store& store = *group.membership().store;
    if (group.rank() == 0) {
      std::vector<std::string> all_in_line;
      for (int rank = 1; rank < group.world_size(); ++rank) all_in_line.push_back("in line " + std::to_string(rank));
      store.wait(all_in_line, Deadline::after(seconds(60)));
      throw std::runtime_error("it leaves");
    }
    std::vector<std::shared_ptr<Work>> works;
    for (int i = 0; i < 6; ++i) works.push_back(group.all_reduce_async(ones(300'000)));
    store.set("in line " + std::to_string(group.rank()), "1");
    int failed = 0;
    for (const auto& work : works) {
      try {
        work->wait();
      } catch (const Error&) {
        ++failed;
      }
    }
    EXPECT_EQ(failed, 6);
  });
  EXPECT_TRUE(ends[0].failed);
  for (std::size_t rank = 1; rank < ends.size(); ++rank) EXPECT_FALSE(ends[rank].failed) << ends[rank].text;
}

class LostProcess : public Contract {};
std::vector<Placement> placements_in_processes() {
  std::vector<Placement> found;
  for (const Placement& placement : placements_for_failures()) {
    if (placement.processes) found.push_back(placement);
  }
  return found;
}
INSTANTIATE_TEST_SUITE_P(Engines, LostProcess, ::testing::ValuesIn(placements_in_processes()), placement_name);

// Seconds over some engines: a group of processes is started for each lost rank.
TEST_P(LostProcess, KilledBetweenOperations) {
  for (int lost = 0; lost < GetParam().world_size; ++lost) {
    const auto ends = ends_of([&](Communicator& group) {
      for (int step = 0; step < 10; ++step) {
        if (group.rank() == lost && step == 5) ::raise(SIGKILL);
        at::Tensor tensor = ones(1000);
        group.all_reduce(tensor);
      }
    });
    EXPECT_EQ(ends[static_cast<std::size_t>(lost)].signal, SIGKILL);
    expect_named(ends, lost, false);
    expect_words(ends, lost, "(" + kOperation + " )?lost (the connection to )?RANK(: [^(]+" + kLastSeen + ")?",
                 {FailureCause::Kind::LostPeer});
  }
}

TEST_P(LostProcess, KilledInTheMiddleOfAnOperation) {
  const int lost = GetParam().world_size - 1;
  for (const int delay_ms : {0, 4, 12}) {
    const auto ends = ends_of([&](Communicator& group) {
      at::Tensor tensor = ones(16 << 20);  // 64 MiB take longer than the delay
      group.barrier();
      if (group.rank() == lost) {
        std::thread([&] {
          std::this_thread::sleep_for(milliseconds(delay_ms));  // the moment is the test's parameter
          ::raise(SIGKILL);
        }).detach();
      }
      for (;;) group.all_reduce(tensor);
    });
    EXPECT_EQ(ends[static_cast<std::size_t>(lost)].signal, SIGKILL);
    expect_named(ends, lost, false);
  }
}

// A second, because the operations before must not take as long, however busy the machine is.
TEST_P(LostProcess, StoppedBetweenOperations) {
  const int lost = 0;
  RanksOptions options;
  options.timeout = milliseconds(1000);
  const auto ends = ends_of(
      [&](Communicator& group) {
        meet_in_store(group, "before the operations");
        for (int step = 0; step < 10; ++step) {
          if (group.rank() == lost && step == 5) ::raise(SIGSTOP);
          at::Tensor tensor = ones(1000);
          group.all_reduce(tensor);
        }
      },
      options);
  expect_named(ends, lost, true);
}

// Longer than that: a rank that has arrived counts as silent half a second after its last report.
TEST_P(LostProcess, StoppedInTheMiddleOfAnOperation) {
  const int lost = GetParam().world_size - 1;
  RanksOptions options;
  options.timeout = milliseconds(1500);
  const auto ends = ends_of(
      [&](Communicator& group) {
        at::Tensor tensor = ones(16 << 20);
        meet_in_store(group, "before the barrier");
        group.barrier();
        if (group.rank() == lost) {
          std::thread([] {
            std::this_thread::sleep_for(milliseconds(10));  // 64 MiB take longer: in the middle of one of them
            ::raise(SIGSTOP);
          }).detach();
        }
        for (;;) group.all_reduce(tensor);
      },
      options);
  expect_named(ends, lost, true);
}

}  // namespace
}  // namespace lockstep
