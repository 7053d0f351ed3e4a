// Many pending asynchronous operations while a rank is late, busy, or waits elsewhere: no call waits for that rank, and
// started operations proceed without its help.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"
#include "tests/comm/contract.h"
#include "tests/comm/meeting.h"

namespace lockstep {
namespace {

using std::chrono::seconds;

// If cores are free, the engines over shared memory run all operations in a thread; here they must not.
class ManyPending : public Contract {
 protected:
  static void SetUpTestSuite() { ::setenv("LOCKSTEP_COMMUNICATION_THREAD", "0", 1); }
  static void TearDownTestSuite() { ::unsetenv("LOCKSTEP_COMMUNICATION_THREAD"); }
};
INSTANTIATE_TEST_SUITE_P(Engines, ManyPending, ::testing::ValuesIn(placements({2, 3})), placement_name);

enum class MemoryKind { Allocated, Own, Mixed };

// All-reduces with sizes for every algorithm of every engine, and values that identify the operation and the rank.
class Sums {
 public:
  Sums(Communicator& group, int count, MemoryKind kind) : group_(group) {
    constexpr std::int64_t kSizes[] = {1, 700, 3, 5000, 20000, 0, 100};
    const auto size_of = [&](int i) { return kSizes[i % 7]; };
    std::int64_t total = 0;
    for (int i = 0; i < count; ++i) total += size_of(i);
    const at::Tensor block = group.allocate({total}, at::kFloat);
    std::int64_t begin = 0;
    for (int i = 0; i < count; ++i) {
      const bool allocated = kind == MemoryKind::Allocated || (kind == MemoryKind::Mixed && i % 3 != 0);
      tensors_.push_back(allocated ? block.narrow(0, begin, size_of(i)) : at::empty({size_of(i)}, at::kFloat));
      tensors_.back().fill_(i + group.rank());
      begin += size_of(i);
    }
  }

  void start() {
    for (const at::Tensor& tensor : tensors_) works_.push_back(group_.all_reduce_async(tensor));
  }
  void wait(bool last_first = false) {
    for (std::size_t i = 0; i < works_.size(); ++i) works_[last_first ? works_.size() - 1 - i : i]->wait();
  }
  void check() const {
    const int size = group_.world_size();
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const double want = static_cast<double>(size) * static_cast<double>(i) + size * (size - 1) / 2.0;
      EXPECT_TRUE(tensors_[i].eq(want).all().item<bool>()) << "operation " << i << " of " << tensors_.size();
    }
  }
  std::vector<std::shared_ptr<Work>>& works() { return works_; }

 private:
  Communicator& group_;
  std::vector<at::Tensor> tensors_;
  std::vector<std::shared_ptr<Work>> works_;
};

// Events between ranks that do not use the group.
void announce_event(Communicator& group, const std::string& what) { group.membership().store->set(what, "1"); }
void await_event(Communicator& group, const std::string& what) {
  group.membership().store->get(what, Deadline::after(seconds(30)));
}

// Shared memory has room for 32 operations under way; over connections there is nothing that 500 of them fill.
TEST_P(ManyPending, WhileOneRankIsLate) {
  each_rank([](Communicator& group) {
    const int late = group.world_size() - 1;
    const std::string engine = group.engine();
    const bool shares_memory = engine == "shm" || engine == "thread";
    const std::vector<int> counts =
        shares_memory ? std::vector<int>{1, 31, 32, 33, 34, 100, 500} : std::vector<int>{1, 33, 100};
    for (const MemoryKind kind : {MemoryKind::Allocated, MemoryKind::Own, MemoryKind::Mixed}) {
      for (const int count : counts) {
        Sums sums(group, count, kind);
        const std::string event = "all started " + std::to_string(count) + "." + std::to_string(static_cast<int>(kind));
        if (group.rank() == late) {
          for (int rank = 0; rank < late; ++rank) await_event(group, event + "/" + std::to_string(rank));
        }
        sums.start();
        announce_event(group, event + "/" + std::to_string(group.rank()));
        sums.wait(count % 2 == 0);
        sums.check();
      }
    }
  });
}

TEST_P(ManyPending, BeforeACallThatWaits) {
  each_rank([](Communicator& group) {
    Sums sums(group, 100, MemoryKind::Allocated);
    Sums more(group, 40, MemoryKind::Mixed);
    sums.start();
    at::Tensor now = at::full({3}, group.rank(), at::kFloat);
    group.broadcast(now, 1);
    EXPECT_TRUE(now.eq(1).all().item<bool>());
    sums.check();  // a blocking call runs after all started operations
    more.start();
    group.all_reduce(now);
    EXPECT_TRUE(now.eq(group.world_size()).all().item<bool>());
    more.check();
    sums.wait();
    more.wait();
  });
}

TEST_P(ManyPending, WhileThisRankWaitsForSomethingElse) {
  // Rank 0 waits for an action that rank 1 does only once all operations are over.
  each_rank([](Communicator& group) {
    const auto part = group.split(0);
    for (const int round : {0, 1, 2}) {
      Sums sums(group, 150, MemoryKind::Allocated);
      sums.start();
      const std::string event = "all over " + std::to_string(round);
      at::Tensor message = at::full({10}, group.rank(), at::kFloat);
      if (group.rank() != 0) sums.wait();
      if (round == 0 && group.rank() == 0) await_event(group, event);
      if (round == 0 && group.rank() == 1) announce_event(group, event);
      if (round == 1 && group.rank() == 0) group.recv(message, 1);
      if (round == 1 && group.rank() == 1) group.send(message, 0);
      if (round == 2) part->barrier();
      sums.wait();
      sums.check();
    }
  });
}

TEST_P(ManyPending, TinyOnesDoNotWaitInTheCall) {
  each_rank([](Communicator& group) {
    std::vector<at::Tensor> tensors;
    std::vector<std::shared_ptr<Work>> works;
    const auto start = [&] {
      for (int i = 0; i < 3; ++i) {
        tensors.push_back(at::full({2}, i, at::kFloat));
        works.push_back(group.all_reduce_async(tensors.back()));
      }
    };
    at::Tensor message = at::zeros({4});
    if (group.rank() == 1) group.recv(message, 0);
    start();
    if (group.rank() == 0) group.send(message, 1);
    for (const auto& work : works) work->wait();
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(tensors[static_cast<std::size_t>(i)].eq(i * group.world_size()).all().item<bool>()) << i;
    }
  });
}

TEST_P(ManyPending, AnotherThreadMayWaitMeanwhile) {
  each_rank([](Communicator& group) {
    Sums first(group, 1, MemoryKind::Allocated);
    Sums rest(group, 100, MemoryKind::Allocated);
    if (group.rank() != 0) await_event(group, "rank 0 has started all");
    first.start();
    std::thread other([&] { first.wait(); });
    rest.start();
    if (group.rank() == 0) announce_event(group, "rank 0 has started all");
    group.barrier();
    other.join();
    first.check();
    rest.check();
    rest.wait();
  });
}

TEST_P(ManyPending, AnAbortEndsThemAll) {
  each_rank_fails([](Communicator& group) {
    Sums sums(group, 500, MemoryKind::Mixed);
    group.barrier();
    meet_in_store(group, "out of the barrier");
    if (group.rank() != 0) {
      await_event(group, "aborted");
      EXPECT_THROW(group.barrier(), Error);
      announce_event(group, "noticed " + std::to_string(group.rank()));
      return;
    }
    sums.start();
    group.abort("the plug was pulled");
    announce_event(group, "aborted");
    for (const auto& work : sums.works()) {
      try {
        work->wait();
        ADD_FAILURE() << "an operation ended well";
      } catch (const Error& error) {
        EXPECT_NE(error.happened().find("the plug was pulled"), std::string::npos) << error.what();
      }
    }
    for (int rank = 1; rank < group.world_size(); ++rank) await_event(group, "noticed " + std::to_string(rank));
  });
}

TEST_P(ManyPending, AreEndedWithTheirCommunicator) {
  each_rank_fails([](Communicator& group) {
    auto part = group.split(0);
    Sums sums(*part, 500, MemoryKind::Allocated);
    part->barrier();
    meet_in_store(group, "out of the barrier");
    if (group.rank() != 0) {
      await_event(group, "its communicator is gone");
      EXPECT_THROW(part->barrier(), Error);
      announce_event(group, "noticed " + std::to_string(group.rank()));
      return;
    }
    sums.start();
    part.reset();
    announce_event(group, "its communicator is gone");
    for (const auto& work : sums.works()) {
      EXPECT_TRUE(work->is_completed());
      EXPECT_THROW(work->wait(), Error);
    }
    for (int rank = 1; rank < group.world_size(); ++rank) await_event(group, "noticed " + std::to_string(rank));
  });
}

}  // namespace
}  // namespace lockstep
