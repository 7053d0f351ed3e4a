// What engine nccl does when NCCL fails in ways that only imitated devices show on demand (tests/fake_gpu).
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "tests/comm/cuda_ranks.h"
#include "tests/fake_gpu/counts/device_counters.h"

namespace lockstep {
namespace {

class CudaImitated : public ::testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_CUDA(3);
    if (!has_imitated_devices()) GTEST_SKIP() << "needs imitated devices, whose NCCL can fail";
  }
  // Three ranks with these variables. All reduce until the last one kills itself, if it is to. An error must not reach
  // the program before the communicator has ended.
  static std::vector<RankOutcome> ranks_with(const std::map<std::string, std::string>& variables, bool last_is_killed) {
    RanksOptions options;
    options.prepare = [variables](int) {
      for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
    };
    options.deadline = std::chrono::milliseconds(60000);
    return cuda_ranks(
        3,
        [&](Communicator& group) {
          const at::Tensor tensor = on(group, ones(1000));
          for (int step = 0; step < 4; ++step) {
            if (last_is_killed && step == 3 && group.rank() == 2) ::raise(SIGKILL);
            try {
              group.all_reduce(tensor);
            } catch (const Error&) {
              if (device_counter("nccl_ends") == 0) throw std::runtime_error("an error before the communicator's end");
              throw;
            }
          }
        },
        options);
  }
};

// Docker's 64 MB of /dev/shm end in such an error, while a communicator is made.
TEST_F(CudaImitated, ASystemErrorIsToldInNcclsWordsAndBlamesTheRankThatHasIt) {
  for (const char* at : {"1", "4"}) {  // while the group starts, and in an operation
    const auto ends =
        ranks_with({{"FAKE_NCCL_FAIL_AT", at}, {"FAKE_NCCL_FAIL_KIND", "system"}, {"FAKE_NCCL_FAIL_RANK", "1"}}, false);
    for (std::size_t rank = 0; rank < ends.size(); ++rank) {
      EXPECT_TRUE(ends[rank].failed && !ends[rank].timed_out) << rank;
      EXPECT_NE(ends[rank].text.find("rank 1 on "), std::string::npos) << ends[rank].text;
      EXPECT_NE(ends[rank].text.find("ended the group: NCCL failed: "), std::string::npos) << ends[rank].text;
      EXPECT_NE(ends[rank].text.find("unhandled system error"), std::string::npos) << ends[rank].text;
      EXPECT_NE(ends[rank].text.find("--shm-size"), std::string::npos) << ends[rank].text;
      ASSERT_TRUE(ends[rank].cause) << ends[rank].text;
      EXPECT_EQ(ends[rank].cause->rank, 1);
    }
  }
}

TEST_F(CudaImitated, ALossThatOnlyNcclSeesBlamesNobody) {
  const auto ends = ranks_with({{"FAKE_NCCL_FAIL_AT", "4"}, {"FAKE_NCCL_FAIL_KIND", "remote"}}, false);
  for (const RankOutcome& end : ends) {
    EXPECT_TRUE(end.failed && !end.timed_out);
    EXPECT_NE(end.text.find("rank 0 on "), std::string::npos) << end.text;
    EXPECT_NE(end.text.find("lost its connection to another rank"), std::string::npos) << end.text;
    ASSERT_TRUE(end.cause) << end.text;
    EXPECT_EQ(end.cause->rank, -1);
  }
}

// The exchange that shows whether ranks disagree goes with the data.
TEST_F(CudaImitated, AnOperationIsOneKernelOfNccl) {
  each_cuda_rank(3, [](Communicator& group) {
    const at::Tensor tensor = on(group, ones(1000));
    const at::Tensor bytes = at::ones({7}, tensor.options().dtype(at::kByte));
    const at::Tensor empty = at::ones({0}, tensor.options());
    const at::Tensor all = at::zeros({3000}, tensor.options());
    EXPECT_EQ(added_to("nccl_launches", [&] { group.all_reduce(tensor); }), 1);
    EXPECT_EQ(added_to("nccl_launches", [&] { group.all_reduce(bytes); }), 1);
    EXPECT_EQ(added_to("nccl_launches", [&] { group.all_reduce(empty); }), 1);
    EXPECT_EQ(added_to("nccl_launches", [&] { group.barrier(); }), 1);
    EXPECT_EQ(added_to("nccl_launches", [&] { group.all_to_all(all, at::ones_like(all)); }), 1);
  });
}

// The memory of an operation is given back when its error is thrown, so the error waits for the abort.
TEST_F(CudaImitated, AnErrorIsThrownWhenTheAbortHasEnded) {
  const auto ends = ranks_with({{"FAKE_NCCL_ABORT_US", "700000"}}, true);
  for (int rank = 0; rank < 2; ++rank) {
    const RankOutcome& end = ends[static_cast<std::size_t>(rank)];
    EXPECT_NE(end.text.find("lost rank 2 on "), std::string::npos) << end.text;
  }
}

// The ranks have found that they agree, and the device reaches the end of the operation because of the abort.
TEST_F(CudaImitated, AnOperationThatAnAbortEndsHasFailed) {
  RanksOptions options;
  options.timeout = std::chrono::milliseconds(1500);
  options.prepare = [](int) {
    ::setenv("FAKE_NCCL_STUCK_AT", "5", 1);
    ::setenv("FAKE_NCCL_FAIL_RANK", "1", 1);
  };
  const auto ends = cuda_ranks(
      3,
      [](Communicator& group) {
        const at::Tensor tensor = on(group, ones(1000));
        group.all_reduce(tensor);
        EXPECT_THROW(group.all_reduce(tensor), Error);
      },
      options);
  for (const RankOutcome& end : ends) EXPECT_FALSE(end.failed) << end.text;
}

// Nothing can save a device whose kernel does not end. The rank must not hang with it.
TEST_F(CudaImitated, ARankEndsIfItsDeviceDoesNotBecomeFree) {
  // A second for the abort, and what starting takes.
  const auto ends = ranks_with({{"FAKE_NCCL_ABORT_HANGS", "1"}, {"LOCKSTEP_NCCL_ABORT_S", "1"}}, true);
  for (int rank = 0; rank < 2; ++rank) {
    const RankOutcome& end = ends[static_cast<std::size_t>(rank)];
    EXPECT_TRUE(end.failed);
    EXPECT_EQ(end.signal, 0) << "it ended by itself";
  }
}

}  // namespace
}  // namespace lockstep
