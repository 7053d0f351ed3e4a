// Engine nccl where something is wrong, or asked for at the wrong time; what it leaves on the devices.
#include <ATen/ATen.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "tests/comm/cuda_ranks.h"
#include "tests/support/test_size.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

class CudaFailures : public CudaRanks {};
INSTANTIATE_TEST_SUITE_P(Devices, CudaFailures, ::testing::Values(1, 2, 3, 4), ::testing::PrintToStringParamName());

// Each tag of a direction has a communicator of NCCL, so a tag for each step would fill the device.
TEST_P(CudaFailures, RefuseTooManyTags) {
  if (GetParam() != 2) GTEST_SKIP() << "two ranks show it";
  const auto ends = cuda_ranks(2, [](Communicator& group) {
    at::Tensor tensor = on(group, ones(3));
    for (int tag = 0; tag < 100; ++tag) {
      group.rank() == 0 ? group.send(tensor, 1, tag) : group.recv(tensor, 0, tag);
    }
  });
  for (const RankOutcome& end : ends) {
    EXPECT_TRUE(end.failed && !end.timed_out);
    EXPECT_NE(end.text.find("messages from rank 0 to rank 1 have tag 16 and 16 other tags"), std::string::npos)
        << end.text;
  }
}

// A context takes half a GB of a device, and threads begin on the first device.
TEST_P(CudaFailures, MakeContextsOnTheirOwnDevice) {
  if (GetParam() == 1) GTEST_SKIP() << "the first device is its own";
  each_cuda_rank(GetParam(), [](Communicator& group) {
    const int next = (group.rank() + 1) % group.world_size();
    const int before = (group.rank() + group.world_size() - 1) % group.world_size();
    at::Tensor tensor = on(group, ones(1000));
    const at::Tensor received = at::zeros_like(tensor);
    std::vector<std::shared_ptr<Work>> works;
    for (int i = 0; i < 5; ++i) works.push_back(group.all_reduce_async(tensor));
    works.push_back(group.irecv(received, before));
    works.push_back(group.isend(tensor, next));
    for (const auto& work : works) work->wait();
    group.split(0)->all_reduce(tensor);
    const auto& cuda = at::detail::getCUDAHooks();
    for (int device = 0; device < group.world_size(); ++device) {
      EXPECT_EQ(cuda.hasPrimaryContext(static_cast<c10::DeviceIndex>(device)), device == group.rank()) << device;
    }
  });
}

// Two communicators of the survivors have a kernel that waits for the lost rank: the group's, and that of a message.
TEST_P(CudaFailures, HaveTheirDeviceAfterALoss) {
  if (GetParam() == 1) GTEST_SKIP() << "nobody is left";
  const int lost = GetParam() - 1;
  RanksOptions options;
  options.deadline = milliseconds(60000);
  const auto ends = cuda_ranks(
      GetParam(),
      [&](Communicator& group) {
        at::Tensor tensor = on(group, ones(10));
        const at::Tensor received = at::zeros_like(tensor);
        group.all_reduce(tensor);
        if (group.rank() == lost) group.send(tensor, 0);
        if (group.rank() == 0) group.recv(received, lost);
        group.barrier();
        if (group.rank() == lost) ::raise(SIGKILL);
        std::shared_ptr<Work> posted;
        if (group.rank() == 0) posted = group.irecv(received, lost);
        EXPECT_THROW(group.all_reduce(tensor), Error);
        if (posted) {
          EXPECT_THROW(posted->wait(), Error);
        }
        EXPECT_EQ(at::ones({1000}, tensor.options()).sum().item<float>(), 1000.F);
      },
      options);
  for (int rank = 0; rank < lost; ++rank) {
    EXPECT_FALSE(ends[static_cast<std::size_t>(rank)].failed) << ends[static_cast<std::size_t>(rank)].text;
  }
}

// The thread of a backward and that of the program may be the first to need it.
TEST_P(CudaFailures, MayBeNeededByTwoThreadsAtOnce) {
  if (GetParam() != 2) GTEST_SKIP() << "two ranks show it";
  const auto ends = ranks_as_processes(2, [](const Membership& membership) {
    const auto group = make_communicator("", membership);
    const c10::Device device = device_of(membership.rank);
    std::vector<std::future<Communicator*>> found;
    for (int i = 0; i < 2; ++i) {
      found.push_back(std::async(std::launch::async, [&] {
        const c10::DeviceGuard current(device);
        return &group->carrier(device);
      }));
    }
    EXPECT_EQ(found[0].get(), found[1].get());
  });
  for (const RankOutcome& end : ends) EXPECT_FALSE(end.failed) << end.text;
}

// Two threads of one rank, for whom no order is wrong. NCCL refuses a call that begins within another one.
TEST_P(CudaFailures, TakeCallsOfTwoThreads) {
  if (GetParam() != 1) GTEST_SKIP() << "one rank shows it";
  each_cuda_rank(1, [](Communicator& group) {
    std::vector<std::future<void>> threads;
    for (int i = 0; i < 2; ++i) {
      threads.push_back(std::async(std::launch::async, [&] {
        const c10::DeviceGuard current(group.device());
        at::Tensor tensor = on(group, ones(10));
        for (int step = 0; step < 20; ++step) group.all_reduce_async(tensor)->wait();
      }));
    }
    for (auto& thread : threads) thread.get();
  });
}

// LibTorch's pool has 32 streams, which the 33rd user shares with the first: here the last pair with the collectives.
TEST_P(CudaFailures, HaveAStreamForEachPair) {
  if (GetParam() != 2) GTEST_SKIP() << "two ranks show it";
  each_cuda_rank(2, [](Communicator& group) {
    constexpr int kTags = 16;
    at::Tensor tensor = on(group, ones(3));
    for (const int sender : {0, 1}) {
      for (int tag = 0; tag < kTags; ++tag) {
        group.rank() == sender ? group.send(tensor, 1 - sender, tag) : group.recv(tensor, sender, tag);
      }
    }
    std::shared_ptr<Work> posted;
    const at::Tensor received = at::zeros_like(tensor);
    if (group.rank() == 0) posted = group.irecv(received, 1, kTags - 1);
    group.all_reduce(tensor);
    group.rank() == 0 ? posted->wait() : group.send(tensor, 0, kTags - 1);
  });
}

// A capture records what runs on a stream; an operation also asks the device whether it has ended.
TEST_P(CudaFailures, AreRefusedWhileAGraphIsCaptured) {
  if (GetParam() != 1) GTEST_SKIP() << "one rank shows it";
  each_cuda_rank(1, [](Communicator& group) {
    using Create = int (*)(void**, unsigned int);
    using Begin = int (*)(void*, int);
    using End = int (*)(void*, void**);
    const auto create = reinterpret_cast<Create>(::dlsym(RTLD_DEFAULT, "cudaStreamCreateWithFlags"));
    const auto begin = reinterpret_cast<Begin>(::dlsym(RTLD_DEFAULT, "cudaStreamBeginCapture"));
    const auto end = reinterpret_cast<End>(::dlsym(RTLD_DEFAULT, "cudaStreamEndCapture"));
    ASSERT_TRUE(create != nullptr && begin != nullptr && end != nullptr);
    const at::Tensor tensor = on(group, ones(10));
    void* stream = nullptr;
    ASSERT_EQ(create(&stream, 1), 0);
    {
      // LibTorch's number of a stream that is not its own is the stream's address.
      const c10::StreamGuard other(
          c10::Stream(c10::Stream::UNSAFE, group.device(), reinterpret_cast<c10::StreamId>(stream)));
      ASSERT_EQ(begin(stream, 2), 0);
      try {
        group.all_reduce(tensor);
        ADD_FAILURE() << "it was not refused";
      } catch (const Error& error) {
        EXPECT_NE(error.happened().find("all_reduce while a CUDA graph is being captured"), std::string::npos)
            << error.what();
      }
      void* graph = nullptr;
      end(stream, &graph);
    }
    group.all_reduce(tensor);  // the group lives
    EXPECT_TRUE(tensor.eq(1).all().item<bool>());
  });
}

TEST_P(CudaFailures, NameTheRankThatDisagrees) {
  if (GetParam() == 1) GTEST_SKIP() << "one rank agrees with itself";
  const auto ends = cuda_ranks(GetParam(), [](Communicator& group) {
    at::Tensor tensor = on(group, ones(1000));
    group.all_reduce(tensor);
    group.rank() == 0 ? group.broadcast(tensor, 0) : group.all_reduce(tensor, ReduceOp::Max);
  });
  for (const RankOutcome& end : ends) {
    EXPECT_TRUE(end.failed && !end.timed_out);
    EXPECT_NE(end.text.find("disagree"), std::string::npos) << end.text;
    EXPECT_NE(end.text.find("broadcast #1"), std::string::npos) << end.text;
    EXPECT_NE(end.text.find("all_reduce #1"), std::string::npos) << end.text;
  }
}

// NCCL waits for ever for the rest of what the other rank does not send.
TEST_P(CudaFailures, NameTheRankWithOtherSizes) {
  if (GetParam() == 1) GTEST_SKIP() << "one rank agrees with itself";
  const auto ends = cuda_ranks(GetParam(), [](Communicator& group) {
    const at::Tensor tensor = on(group, ones(group.rank() == 0 ? 1 << 20 : 1000));
    group.all_reduce(tensor);
  });
  for (const RankOutcome& end : ends) {
    EXPECT_TRUE(end.failed && !end.timed_out);
    EXPECT_NE(end.text.find("disagree"), std::string::npos) << end.text;
    EXPECT_NE(end.text.find("of 1048576 float"), std::string::npos) << end.text;
    EXPECT_NE(end.text.find("of 1000 float"), std::string::npos) << end.text;
  }
}

TEST_P(CudaFailures, NameTheRankThatIsKilled) {
  if (GetParam() == 1) GTEST_SKIP() << "nobody is left to see it";
  const int lost = GetParam() - 1;
  const auto ends = cuda_ranks(GetParam(), [&](Communicator& group) {
    at::Tensor tensor = on(group, ones(1000));
    for (int step = 0; step < 10; ++step) {
      if (group.rank() == lost && step == 5) ::raise(SIGKILL);
      group.all_reduce(tensor, ReduceOp::Max);
    }
  });
  for (int rank = 0; rank < lost; ++rank) {
    const RankOutcome& end = ends[static_cast<std::size_t>(rank)];
    EXPECT_TRUE(end.failed && !end.timed_out);
    EXPECT_NE(end.text.find("rank " + std::to_string(lost) + " on "), std::string::npos) << end.text;
  }
}

TEST_P(CudaFailures, NameTheRankThatStandsStill) {
  if (GetParam() == 1) GTEST_SKIP() << "nobody waits for it";
  const int still = GetParam() - 1;
  RanksOptions options;
  options.timeout = milliseconds(test_size(3000, 5000));
  const auto ends = cuda_ranks(
      GetParam(),
      [&](Communicator& group) {
        at::Tensor tensor = on(group, ones(1000));
        group.all_reduce(tensor);
        if (group.rank() == still) ::raise(SIGSTOP);
        group.all_reduce(tensor);
      },
      options);
  for (int rank = 0; rank < still; ++rank) {
    const RankOutcome& end = ends[static_cast<std::size_t>(rank)];
    EXPECT_TRUE(end.failed && end.timed_out) << end.text;
    EXPECT_NE(end.text.find("rank " + std::to_string(still) + " on "), std::string::npos) << end.text;
  }
}

}  // namespace
}  // namespace lockstep
