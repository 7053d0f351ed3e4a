// Memory for the ranks of a host that all_gather brings, and that is gone when they have left it.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <string>

#include "lockstep/comm/factory.h"
#include "lockstep/comm/host_memory.h"
#include "tests/support/pretended_hosts.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

std::int64_t bytes_with_pages(const TransientMemory& memory) {
  struct stat status {};
  EXPECT_EQ(::fstat(memory.file.get(), &status), 0);
  return static_cast<std::int64_t>(status.st_blocks) * 512;
}

TransientMemory transient_floats(Communicator& group, std::int64_t numel) {
  return dynamic_cast<HostMemoryEngine&>(group).allocate_transient_for_host(numel, at::kFloat, {});
}

at::Tensor all_values(Communicator& group, std::int64_t count, int turn) {
  return at::arange(group.world_size() * count, at::kFloat) + turn;
}

void gather_turn(Communicator& group, const TransientMemory& memory, std::int64_t count, int turn) {
  group.all_gather(memory.memory, all_values(group, count, turn).narrow(0, group.rank() * count, count).clone());
}

struct TransientCase {
  int ranks;
  int hosts;
  bool processes;
};

class TransientOnHosts : public ::testing::TestWithParam<TransientCase> {
 protected:
  static void run(const RankBody& body) {
    const TransientCase& how = GetParam();
    const RankBody on_them = [&](const Membership& membership) { body(on_hosts(membership, how.hosts)); };
    how.processes ? run_ranks_as_processes(how.ranks, on_them) : run_ranks_as_threads(how.ranks, on_them);
  }
};

INSTANTIATE_TEST_SUITE_P(Ranks, TransientOnHosts,
                         ::testing::Values(TransientCase{4, 2, true}, TransientCase{6, 2, true},
                                           TransientCase{4, 2, false}, TransientCase{6, 3, false}),
                         [](const auto& test) {
                           return std::to_string(test.param.ranks) + "_on_" + std::to_string(test.param.hosts) +
                                  (test.param.processes ? "_as_processes" : "_as_threads");
                         });

// One message, and several pieces.
TEST_P(TransientOnHosts, IsThereOnceAndThenGone) {
  run([](const Membership& membership) {
    const auto group = make_communicator("", membership);
    const std::int64_t page = ::sysconf(_SC_PAGESIZE);
    for (const std::int64_t count : {5, 300'000}) {
      const TransientMemory memory = transient_floats(*group, group->world_size() * count);
      EXPECT_EQ(bytes_with_pages(memory), 0);
      for (int turn = 0; turn < 3; ++turn) {
        gather_turn(*group, memory, count, turn);
        EXPECT_TRUE(at::equal(memory.memory, all_values(*group, count, turn))) << count << " in turn " << turn;
        group->barrier();
        const std::int64_t bytes = group->world_size() * count * 4;
        EXPECT_GE(bytes_with_pages(memory), bytes);
        EXPECT_LE(bytes_with_pages(memory), bytes + 2 * page);  // the last one, and one that counts
        group->barrier();
        memory.leave();
        group->barrier();
        EXPECT_LE(bytes_with_pages(memory), page);
        group->barrier();
      }
    }
  });
}

// Each rank sends its half of two vectors, one after the other, which come together in other places.
TEST_P(TransientOnHosts, PutsMessagesWhereTheLayoutSays) {
  run([](const Membership& membership) {
    const auto group = make_communicator("", membership);
    const std::int64_t world = group->world_size();
    for (const std::int64_t count : {3, 300'000}) {  // of each vector, on each rank
      const auto bytes = static_cast<std::size_t>(count) * sizeof(float);
      const std::size_t gap = 128, second = static_cast<std::size_t>(world) * bytes + gap;
      GatherLayout layout;
      for (std::size_t rank = 0; rank < static_cast<std::size_t>(world); ++rank) {
        layout.pieces.push_back({{0, rank * bytes, bytes}, {bytes, second + rank * bytes, bytes}});
      }
      const std::int64_t numel = world * (2 * count + 64);  // the end of each message is in no piece
      const TransientMemory memory =
          dynamic_cast<HostMemoryEngine&>(*group).allocate_transient_for_host(numel, at::kFloat, layout);
      for (int turn = 0; turn < 2; ++turn) {
        const at::Tensor one = all_values(*group, count, turn), two = -all_values(*group, count, turn);
        const std::int64_t begin = group->rank() * count;
        group->all_gather(memory.memory,
                          at::cat({one.narrow(0, begin, count), two.narrow(0, begin, count), at::full({64}, 1e9F)}));
        const auto at_second = static_cast<std::int64_t>(second / sizeof(float));
        EXPECT_TRUE(at::equal(memory.memory.narrow(0, 0, world * count), one));
        EXPECT_TRUE(at::equal(memory.memory.narrow(0, at_second, world * count), two));
        group->barrier();
        memory.leave();
      }
    }
  });
}

// All other ranks have left and gather the next values.
TEST_P(TransientOnHosts, WaitsForARankThatStillReads) {
  run([](const Membership& membership) {
    const std::shared_ptr<Communicator> group = make_communicator("", membership);
    const auto meeting = group->split(0, group->rank());
    constexpr std::int64_t kCount = 1000;
    const TransientMemory memory = transient_floats(*group, group->world_size() * kCount);
    const at::Tensor own = all_values(*group, kCount, 1).narrow(0, group->rank() * kCount, kCount).clone();
    gather_turn(*group, memory, kCount, 0);
    std::shared_ptr<Work> next;
    if (group->rank() != 0) {
      memory.leave();
      next = group->all_gather_async(memory.memory, own);
    }
    meeting->barrier();
    if (group->rank() == 0) {
      const at::Tensor want = all_values(*group, kCount, 0);
      for (int look = 0; look < 2000; ++look) ASSERT_TRUE(at::equal(memory.memory, want)) << look;
      memory.leave();
      next = group->all_gather_async(memory.memory, own);
    }
    next->wait();
    EXPECT_TRUE(at::equal(memory.memory, all_values(*group, kCount, 1)));
  });
}

}  // namespace
}  // namespace lockstep
