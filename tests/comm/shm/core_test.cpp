// The engine below the tensors, on threads, without LibTorch, so that the thread sanitizer can check it.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/shm/announcement.h"
#include "lockstep/comm/shm/collectives.h"
#include "lockstep/comm/shm/join.h"
#include "lockstep/comm/shm/operation_order.h"
#include "lockstep/comm/shm/point_to_point.h"
#include "lockstep/net/store/memory_store.h"
#include "lockstep/net/thread_ranks.h"

namespace lockstep::shm {
namespace {

// One rank of a group, built as the communicator builds it.
class CoreRank {
 public:
  explicit CoreRank(const Membership& membership)
      : CoreRank(membership, [membership] { return membership.deadline(); }) {}
  CoreRank(const Membership& membership, std::function<Deadline()> limit)
      : timeout_(membership.timeout),
        sharing_(share_between_threads()),
        group_(join(membership, *sharing_, [](const Announcement&) { return "an operation"; })),
        allocations_(*group_, *sharing_),
        order_(*group_, allocations_, true, std::move(limit)),
        collectives_(*group_, order_),
        channels_(*group_, *sharing_) {}
  ~CoreRank() { order_.close(); }

  int rank() const { return group_->rank(); }
  int world_size() const { return group_->world_size(); }
  Group& group() { return *group_; }
  OperationOrder& order() { return order_; }
  Collectives& collectives() { return collectives_; }
  PointToPoint& channels() { return channels_; }
  std::shared_ptr<SymmetricBuffer> allocate(std::size_t bytes) {
    return allocations_.allocate(bytes, Deadline::after(timeout_));
  }
  Call next(std::size_t count) {
    const std::uint64_t number = sequence_++;
    return {pack({1, 0, 6, 0, static_cast<std::int64_t>(count), number}), number, Deadline::after(timeout_)};
  }
  Call message(std::size_t count, std::uint64_t number) const {
    return {pack({8, 0, 6, 0, static_cast<std::int64_t>(count), number}), number, Deadline::after(timeout_)};
  }

 private:
  const std::chrono::milliseconds timeout_;
  std::unique_ptr<MemorySharing> sharing_;
  std::unique_ptr<Group> group_;
  Allocations allocations_;
  OperationOrder order_;
  Collectives collectives_;
  PointToPoint channels_;
  std::uint64_t sequence_ = 0;
};

std::byte* bytes_of(std::vector<float>& values) { return reinterpret_cast<std::byte*>(values.data()); }
Elements elements_of(std::vector<float>& values) { return {bytes_of(values), values.size(), Element::F32}; }

float value_of(int rank, std::size_t i, std::uint64_t step) {
  return static_cast<float>((i + 3 * static_cast<std::size_t>(rank) + step) % 17);
}
void fill(std::vector<float>& values, int rank, std::uint64_t step) {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = value_of(rank, i, step);
}
bool is_sum(const std::vector<float>& values, int world_size, std::uint64_t step) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    float want = 0;
    for (int rank = 0; rank < world_size; ++rank) want += value_of(rank, i, step);
    if (values[i] != want) return false;
  }
  return true;
}

void started_together(CoreRank& me, std::mt19937& dice, std::uint64_t step) {
  std::vector<std::vector<float>> values(1 + dice() % 4);
  std::vector<std::shared_ptr<InFlightAllReduce>> works;
  for (auto& one : values) {
    one.resize(1 + dice() % (std::size_t{1} << dice() % 17));
    fill(one, me.rank(), step);
    works.push_back(me.order().start(me.next(one.size()), elements_of(one), Reduction::Sum, nullptr));
    me.order().progress();
  }
  for (std::size_t i = works.size(); i-- > 0;) me.order().wait(*works[i]);  // in reverse order
  for (const auto& one : values) EXPECT_TRUE(is_sum(one, me.world_size(), step));
}

void passed_on(CoreRank& me, std::mt19937& dice, std::uint64_t step) {
  std::vector<float> mine(dice() % 100000);
  std::vector<float> got(mine.size());
  fill(mine, me.rank(), step);
  const int size = me.world_size();
  const int before = (me.rank() + size - 1) % size;
  std::thread sender([&] {
    me.channels().send(me.message(mine.size(), step), bytes_of(mine), mine.size() * 4, (me.rank() + 1) % size, 0);
  });
  me.channels().receive(me.message(mine.size(), step), bytes_of(got), got.size() * 4, before, 0);
  sender.join();
  fill(mine, before, step);
  EXPECT_EQ(got, mine);
}

void core_step(CoreRank& me, std::mt19937& dice, std::uint64_t step) {
  const auto kind = dice() % 6;
  if (kind == 0) return started_together(me, dice, step);
  if (kind == 1) return passed_on(me, dice, step);
  if (kind == 2) return me.collectives().barrier(me.next(0));
  std::vector<float> values(1 + dice() % (std::size_t{1} << dice() % 18));
  fill(values, me.rank(), step);
  if (kind == 3) {
    const int root = static_cast<int>(dice() % static_cast<unsigned>(me.world_size()));
    me.collectives().broadcast(me.next(values.size()), bytes_of(values), values.size() * 4, root);
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], value_of(root, i, step));
  } else if (kind == 4) {
    const auto buffer = me.allocate(values.size() * 4);
    std::memcpy(buffer->part(me.rank()), values.data(), values.size() * 4);
    const Elements shared{buffer->part(me.rank()), values.size(), Element::F32};
    me.order().all_reduce(me.next(values.size()), shared, Reduction::Sum);
    std::memcpy(values.data(), buffer->part(me.rank()), values.size() * 4);
    EXPECT_TRUE(is_sum(values, me.world_size(), step));
    me.collectives().barrier(me.next(0));
  } else {
    me.order().all_reduce(me.next(values.size()), elements_of(values), Reduction::Sum);
    EXPECT_TRUE(is_sum(values, me.world_size(), step));
  }
}

template <class Body>
void on_ranks(int world_size, Body&& body) {
  const auto store = std::make_shared<MemoryStore>();
  std::vector<std::thread> ranks;
  for (const Membership& membership : thread_memberships(world_size, std::chrono::seconds(60), store)) {
    ranks.emplace_back([&body, membership] {
      CoreRank me(membership);
      body(me);
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

TEST(EngineCore, RandomOperationsOnThreads) {
  for (const int world_size : {2, 3, 5}) {
    on_ranks(world_size, [](CoreRank& me) {
      std::mt19937 dice(7);
      for (std::uint64_t step = 0; step < 60; ++step) core_step(me, dice, step);
    });
  }
}

TEST(EngineCore, ManyMayBePendingWhileAnotherThreadWaits) {
  for (const int world_size : {2, 3}) {
    std::atomic<int> not_started{world_size - 1};  // the last rank arrives when all others have started theirs
    on_ranks(world_size, [&](CoreRank& me) {
      std::vector<std::vector<float>> values(200);
      std::vector<std::shared_ptr<InFlightAllReduce>> works;
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i].resize(i % 5 == 0 ? 50000 : 1 + i % 700);
        fill(values[i], me.rank(), i);
      }
      while (me.rank() == world_size - 1 && not_started.load() != 0) std::this_thread::yield();
      std::thread waiter;
      for (std::size_t i = 0; i < values.size(); ++i) {
        auto& one = values[i];
        works.push_back(me.order().start(me.next(one.size()), elements_of(one), Reduction::Sum, nullptr));
        if (i == 0) waiter = std::thread([&order = me.order(), first = works.front()] { order.wait(*first); });
      }
      --not_started;
      if (me.rank() == 0) me.collectives().barrier(me.next(0));
      if (me.rank() != 0) {
        for (std::size_t i = works.size(); i-- > 0;) me.order().wait(*works[i]);
        me.collectives().barrier(me.next(0));
      }
      waiter.join();
      for (std::size_t i = 0; i < values.size(); ++i) EXPECT_TRUE(is_sum(values[i], world_size, i)) << i;
    });
  }
}

// A rank's own failure, of which the group does not know. The memory of its operations may be freed only once no other
// rank writes to it.
TEST(EngineCore, AFailureKeepsTheMemoryWhileOthersWriteToIt) {
  std::atomic<bool> is_writing{false};
  std::atomic<bool> is_given_back{false};
  const auto members = thread_memberships(2, std::chrono::seconds(60), std::make_shared<MemoryStore>());
  std::thread writer([&] {
    CoreRank me(members[1]);
    me.group().begin_work();
    is_writing = true;
    while (!me.group().broken()) std::this_thread::yield();
    const Deadline end = Deadline::after(std::chrono::milliseconds(100));  // for an event that must not happen
    while (!end.passed() && !is_given_back) std::this_thread::yield();
    EXPECT_FALSE(is_given_back);
    me.group().end_work();
  });
  CoreRank me(members[0], []() -> Deadline { throw std::runtime_error("it has no limit"); });
  while (!is_writing) std::this_thread::yield();
  std::vector<float> values(50000);
  std::shared_ptr<void> keep(values.data(), [&](void*) { is_given_back = true; });
  const auto started = me.order().start(me.next(values.size()), elements_of(values), Reduction::Sum, std::move(keep));
  EXPECT_THROW(me.order().wait(*started), std::runtime_error);
  writer.join();
  EXPECT_TRUE(is_given_back);
}

TEST(EngineCore, AbortWhileOthersWorkEndsAllOfThem) {
  for (unsigned seed = 0; seed < 5; ++seed) {
    on_ranks(3, [seed](CoreRank& me) {
      std::mt19937 dice(seed);
      const std::uint64_t last = dice() % 30;
      std::thread other;
      const auto endless = [&] {
        for (std::uint64_t step = 0;; ++step) {
          if (step == last && me.rank() == 1) {
            other = std::thread([&] { me.group().abort("enough"); });
          }
          started_together(me, dice, step);
        }
      };
      EXPECT_THROW(endless(), Error);
      if (other.joinable()) other.join();
    });
  }
}

}  // namespace
}  // namespace lockstep::shm
