// Started operations over shared memory: their limits, their order, and ranks lost meanwhile.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"
#include "tests/comm/contract.h"
#include "tests/comm/meeting.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// If cores are free, these engines run all operations in a thread; here they must not.
class SharedMemoryPending : public Contract {
 protected:
  static void SetUpTestSuite() { ::setenv("LOCKSTEP_COMMUNICATION_THREAD", "0", 1); }
  static void TearDownTestSuite() { ::unsetenv("LOCKSTEP_COMMUNICATION_THREAD"); }
};
std::vector<Placement> with_shared_memory() {
  std::vector<Placement> found;
  for (const Placement& placement : placements({2, 3})) {
    if (placement.engine == "shm" || placement.engine == "thread") found.push_back(placement);
  }
  return found;
}
INSTANTIATE_TEST_SUITE_P(Engines, SharedMemoryPending, ::testing::ValuesIn(with_shared_memory()), placement_name);

// Tests that wait for a timeout, which all ranks must keep otherwise, however busy the machine is.
class SharedMemoryTimeout : public SharedMemoryPending {
 protected:
  static constexpr milliseconds kTimeout{1000};
};
std::vector<Placement> three_with_shared_memory() {
  std::vector<Placement> found;
  for (const Placement& placement : with_shared_memory()) {
    if (placement.world_size == 3) found.push_back(placement);
  }
  return found;
}
INSTANTIATE_TEST_SUITE_P(Engines, SharedMemoryTimeout, ::testing::ValuesIn(three_with_shared_memory()), placement_name);

TEST_P(SharedMemoryTimeout, RunsFromTheWaitNotFromTheStart) {
  RanksOptions options;
  options.timeout = kTimeout;
  each_rank(
      [](Communicator& group) {
        meet_in_store(group, "in the group");
        const at::Tensor tensor = group.allocate({5000}, at::kFloat).fill_(group.rank());
        Store& store = *group.membership().store;
        group.barrier();
        if (group.rank() != 0) store.get("computed", Deadline::after(seconds(60)));
        const auto work = group.all_reduce_async(tensor);
        if (group.rank() == 0) {
          std::this_thread::sleep_for(kTimeout * 5 / 4);  // the test is about computing longer than the limit
          store.set("computed", "1");
        }
        work->wait();
        EXPECT_TRUE(tensor.eq(group.world_size() * (group.world_size() - 1) / 2.0).all().item<bool>());
      },
      options);
}

TEST_P(SharedMemoryPending, DifferentMemoryOnEachRankKeepsTheOrder) {
  // Parts of different allocations, and a rank's own tensors: the others cannot access them, so all go in rounds.
  each_rank([](Communicator& group) {
    for (int round = 0; round < 20; ++round) {
      const at::Tensor one = group.allocate({60000}, at::kFloat);
      const at::Tensor other = group.allocate({60000}, at::kFloat);
      std::vector<at::Tensor> tensors;
      std::vector<std::shared_ptr<Work>> works;
      for (int i = 0; i < 6; ++i) {
        const at::Tensor& block = (group.rank() + i) % 2 == 0 ? one : other;
        tensors.push_back(block.narrow(0, 10000 * i, 10000).fill_(i + group.rank()));
        works.push_back(group.all_reduce_async(tensors.back()));
        group.progress();
      }
      while (!works.back()->is_completed()) {
        group.progress();
        std::this_thread::yield();
      }
      const int size = group.world_size();
      for (int i = 0; i < 6; ++i) {
        works[static_cast<std::size_t>(i)]->wait();
        const double want = size * i + size * (size - 1) / 2.0;
        EXPECT_TRUE(tensors[static_cast<std::size_t>(i)].eq(want).all().item<bool>()) << i;
      }
    }
  });
}

TEST_P(SharedMemoryPending, AskingAgainAndAgainNoticesALostRank) {
  const auto ends = ends_of([](Communicator& group) {
    const at::Tensor tensor = group.allocate({5000}, at::kFloat);
    Store& store = *group.membership().store;
    if (group.rank() == 1) {  // it leaves when the others have started: a group that has lost a rank starts nothing
      for (int rank = 0; rank < group.world_size(); ++rank) {
        if (rank != 1) store.get("started/" + std::to_string(rank), Deadline::after(seconds(30)));
      }
      throw std::runtime_error("it leaves");
    }
    const auto work = group.all_reduce_async(tensor);
    store.set("started/" + std::to_string(group.rank()), "1");
    while (!work->is_completed()) std::this_thread::yield();
    EXPECT_THROW(work->wait(), Error);
  });
  EXPECT_TRUE(ends[1].failed);
  EXPECT_FALSE(ends[0].failed) << ends[0].text;
}

TEST_P(SharedMemoryTimeout, EndsAskingAgainAndAgain) {
  RanksOptions options;
  options.timeout = kTimeout;
  each_rank(
      [](Communicator& group) {
        meet_in_store(group, "in the group");
        const at::Tensor tensor = group.allocate({5000}, at::kFloat);
        Store& store = *group.membership().store;
        const Deadline end = Deadline::after(seconds(60));
        group.barrier();
        if (group.rank() == 1) {  // alive, and does not arrive
          for (int rank = 0; rank < group.world_size(); ++rank) {
            if (rank != 1) store.get("asked/" + std::to_string(rank), end);
          }
          return;
        }
        const auto work = group.all_reduce_async(tensor);
        while (!work->is_completed() && !end.passed()) std::this_thread::yield();
        EXPECT_FALSE(end.passed());
        EXPECT_THROW(work->wait(), TimeoutError);
        store.set("asked/" + std::to_string(group.rank()), "1");
      },
      options);
}

// Rank 0's memory is from `allocate`, the others' is not, so that each step of the operation needs every rank.
void while_rank_0_waits_elsewhere(Communicator& group, const std::function<void()>& meet) {
  const at::Tensor shared = group.allocate({300000}, at::kFloat);
  const at::Tensor tensor = (group.rank() == 0 ? shared : at::empty({300000})).fill_(group.rank());
  const auto work = group.all_reduce_async(tensor);
  if (group.rank() != 0) work->wait();
  meet();
  work->wait();
  EXPECT_TRUE(tensor.eq(group.world_size() * (group.world_size() - 1) / 2.0).all().item<bool>());
}

TEST_P(SharedMemoryPending, ARankThatWaitsForAMessageMovesThemOn) {
  each_rank([](Communicator& group) {
    at::Tensor message = at::ones({10});
    while_rank_0_waits_elsewhere(group, [&] {
      if (group.rank() != 0) return group.send(message, 0);
      for (int other = 1; other < group.world_size(); ++other) group.recv(message, other);
    });
  });
}

TEST_P(SharedMemoryPending, ARankThatWaitsInAnotherGroupMovesThemOn) {
  each_rank([](Communicator& group) {
    const auto other = group.split(0);
    while_rank_0_waits_elsewhere(group, [&] { other->barrier(); });
  });
}

TEST_P(SharedMemoryPending, AllocateComesAfterWhatWasStarted) {
  // All ranks take part in rounds, so a rank in `allocate` must have finished what others wait for.
  each_rank([](Communicator& group) {
    const at::Tensor one = group.allocate({60000}, at::kFloat);
    const at::Tensor other = group.allocate({60000}, at::kFloat);
    const at::Tensor tensor = (group.rank() == 0 ? one : other).fill_(group.rank());
    const auto work = group.all_reduce_async(tensor);
    if (group.rank() != 0) work->wait();
    const at::Tensor more = group.allocate({10}, at::kFloat);
    work->wait();
    EXPECT_TRUE(tensor.eq(group.world_size() * (group.world_size() - 1) / 2.0).all().item<bool>());
  });
}

}  // namespace
}  // namespace lockstep
