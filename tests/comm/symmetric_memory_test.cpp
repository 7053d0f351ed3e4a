// All ranks' copies of memory from `allocate`, for engines that share memory.
#include "lockstep/comm/symmetric_memory.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "lockstep/base/deadline.h"
#include "lockstep/base/error.h"
#include "lockstep/net/store.h"
#include "tests/comm/contract.h"

namespace lockstep {
namespace {

class SymmetricCopies : public Contract {};
INSTANTIATE_TEST_SUITE_P(Engines, SymmetricCopies, ::testing::ValuesIn(placements({2, 3})), placement_name);

bool shares_memory(const Communicator& group) {
  return std::string(group.engine()) == "shm" || std::string(group.engine()) == "thread";
}

TEST_P(SymmetricCopies, AreReadAndWrittenBetweenBarriers) {
  each_rank([](Communicator& group) {
    at::Tensor mine = group.allocate({1000}, at::kFloat);
    const auto memory = group.symmetric_memory(mine.narrow(0, 10, 900));
    ASSERT_EQ(memory != nullptr, shares_memory(group));
    if (!memory) return;
    EXPECT_EQ(memory->world_size(), group.world_size());
    EXPECT_EQ(memory->bytes(), 3600U);
    EXPECT_EQ(memory->copy(group.rank()), static_cast<std::byte*>(mine.data_ptr()) + 40);
    for (int round = 0; round < 50; ++round) {
      mine.fill_(100 * group.rank() + round);
      group.barrier();
      const int next = (group.rank() + 1) % group.world_size();
      memory->access([&] {
        float* theirs = reinterpret_cast<float*>(memory->copy(next));
        EXPECT_EQ(theirs[899], 100 * next + round);
        theirs[5] = static_cast<float>(1000 + group.rank());
      });
      group.barrier();
      const int before = (group.rank() + group.world_size() - 1) % group.world_size();
      EXPECT_EQ(mine[15].item<float>(), 1000 + before);
    }
  });
}

TEST_P(SymmetricCopies, AreOnePieceOfMemory) {
  each_rank([](Communicator& group) {
    if (!shares_memory(group)) return;
    at::Tensor mine = group.allocate({5000}, at::kDouble);
    const auto memory = group.symmetric_memory(mine);
    EXPECT_GE(memory->stride_bytes(), memory->bytes());
    for (int rank = 0; rank < group.world_size(); ++rank) {
      EXPECT_EQ(memory->copy(rank), memory->copy(0) + static_cast<std::size_t>(rank) * memory->stride_bytes());
    }
  });
}

TEST_P(SymmetricCopies, AreNotThereForOtherMemory) {
  each_rank([](Communicator& group) {
    EXPECT_EQ(group.symmetric_memory(at::zeros({10})), nullptr);
    EXPECT_EQ(group.symmetric_memory(at::Tensor()), nullptr);
    const at::Tensor mine = group.allocate({10, 10}, at::kFloat);
    EXPECT_EQ(group.symmetric_memory(mine.t()), nullptr);
  });
}

TEST_P(SymmetricCopies, AreClosedOnceTheGroupHasEnded) {
  each_rank([](Communicator& group) {
    if (!shares_memory(group)) return;
    const auto memory = group.symmetric_memory(group.allocate({10}, at::kFloat));
    group.barrier();
    // The abort must not meet a rank that still waits in this barrier.
    Store& store = *group.membership().store;
    store.set("passed/" + std::to_string(group.rank()), "1");
    if (group.rank() == 0) {
      for (int rank = 0; rank < group.world_size(); ++rank) {
        store.get("passed/" + std::to_string(rank), Deadline::after(std::chrono::seconds(30)));
      }
      group.abort("that is enough");
    }
    EXPECT_THROW(group.barrier(), Error);
    bool ran = false;
    EXPECT_THROW(memory->access([&] { ran = true; }), Error);
    EXPECT_FALSE(ran);
  });
}

}  // namespace
}  // namespace lockstep
