// Engine nccl on CUDA devices, one per rank. Ranks are processes: this one does not use CUDA, so that the ranks can be
// forked from it.
#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "lockstep/comm/factory.h"
#include "tests/comm/cuda_ranks.h"
#include "tests/support/test_size.h"

namespace lockstep {
namespace {

// NCCL adds halves in their own precision, and divides before it adds.
void expect_values(const at::Tensor& got, const at::Tensor& want, const std::string& what) {
  EXPECT_TRUE(got.is_cuda()) << what;
  EXPECT_TRUE(got.cpu().to(at::kDouble).allclose(want.to(at::kDouble), 0.02, 0.02)) << what;
}

INSTANTIATE_TEST_SUITE_P(Devices, CudaRanks, ::testing::Values(1, 2, 3, 4), ::testing::PrintToStringParamName());

TEST_P(CudaRanks, ReduceEveryTypeInEveryWay) {
  each_cuda_rank(GetParam(), [](Communicator& group) {
    EXPECT_STREQ(group.engine(), "nccl");
    const int size = group.world_size();
    for (const at::ScalarType dtype : all_dtypes()) {
      for (const ReduceOp op : reductions_of(dtype)) {
        for (const std::int64_t count : {0, 1, 1009, 100003}) {
          // The sizes differ in NCCL's kernels, of which imitated devices have one.
          if (count > 2000 && dtype != at::kFloat && test_size(true, false)) continue;
          const std::string what = std::string(to_string(op)) + " of " + at::toString(dtype);
          const at::Tensor want = reduced_values(dtype, op, size, size * count);
          at::Tensor tensor = on(group, values_of(dtype, op, group.rank(), size * count));
          const at::Tensor in = tensor.clone();
          group.all_reduce(tensor, op);
          expect_values(tensor, want, "all_reduce, " + what);
          at::Tensor part = at::zeros({count}, in.options());
          group.reduce_scatter(part, in, op);
          expect_values(part, want.narrow(0, group.rank() * count, count), "reduce_scatter, " + what);
          tensor.copy_(in);
          group.reduce(tensor, size - 1, op);
          if (group.rank() == size - 1) expect_values(tensor, want, "reduce, " + what);
        }
      }
    }
  });
}

TEST_P(CudaRanks, MoveEveryType) {
  each_cuda_rank(GetParam(), [](Communicator& group) {
    const int size = group.world_size();
    for (const at::ScalarType dtype : all_dtypes()) {
      const auto options = at::TensorOptions().dtype(dtype).device(group.device());
      const at::Tensor mine = at::full({3}, group.rank() + 1, options);
      const at::Tensor ranks = at::arange(1, size + 1, at::kLong).to(options);
      at::Tensor all = at::zeros({3 * size}, options);
      group.all_gather(all, mine);
      EXPECT_TRUE(all.equal(ranks.repeat_interleave(3)));
      all.zero_();
      group.gather(all, mine, size - 1);
      if (group.rank() == size - 1) {
        EXPECT_TRUE(all.equal(ranks.repeat_interleave(3)));
      }
      at::Tensor part = at::zeros({1}, options);
      group.scatter(part, ranks, 0);
      EXPECT_TRUE(part.eq(group.rank() + 1).all().item<bool>());
      at::Tensor exchanged = at::zeros({size}, options);
      group.all_to_all(exchanged, at::full({size}, group.rank() + 1, options));
      EXPECT_TRUE(exchanged.equal(ranks));
      at::Tensor strided = at::full({4, 4}, group.rank(), options).select(1, 2);
      group.broadcast(strided, size - 1);
      EXPECT_TRUE(strided.eq(size - 1).all().item<bool>());
    }
    group.barrier();
  });
}

TEST_P(CudaRanks, RunAsynchronousOperationsInOrder) {
  each_cuda_rank(GetParam(), [](Communicator& group) {
    std::vector<at::Tensor> tensors;
    std::vector<std::shared_ptr<Work>> works;
    for (int i = 0; i < 30; ++i) {
      tensors.push_back(on(group, at::full({1 + 1000 * i}, i, at::kFloat)));
      works.push_back(group.all_reduce_async(tensors.back()));
    }
    for (const auto& work : works) work->wait();
    for (int i = 0; i < 30; ++i) {
      EXPECT_TRUE(tensors[static_cast<std::size_t>(i)].eq(i * group.world_size()).all().item<bool>()) << i;
    }
  });
}

// The device waits for work that is still running when the operation is called, on whatever stream it runs.
TEST_P(CudaRanks, FollowTheCallersStream) {
  each_cuda_rank(GetParam(), [](Communicator& group) {
    const c10::impl::VirtualGuardImpl cuda(c10::kCUDA);
    const c10::StreamGuard other(cuda.getStreamFromGlobalPool(group.device()));
    const std::int64_t side = has_imitated_devices() ? 64 : 2048;  // those pause by themselves
    at::Tensor slow = at::rand({side, side}, at::TensorOptions().device(group.device()));
    for (int i = 0; i < 30; ++i) slow = at::mm(slow, slow).div_(side / 2);
    const at::Tensor in = slow.sum().isfinite().to(at::kFloat).mul(0).add(group.rank() + 1).view({1});
    at::Tensor out = at::zeros({group.world_size()}, in.options());
    const auto work = group.all_gather_async(out, in);
    work->wait();
    EXPECT_TRUE(out.cpu().equal(at::arange(1, group.world_size() + 1, at::kFloat)));
  });
}

TEST_P(CudaRanks, CarryCpuTensorsByAnotherEngine) {
  each_cuda_rank(GetParam(), [](Communicator& group) {
    at::Tensor tensor = ones(10);
    group.all_reduce(tensor);
    EXPECT_TRUE(tensor.eq(group.world_size()).all().item<bool>());
    EXPECT_STRNE(group.carrier(c10::kCPU).engine(), "nccl");
    EXPECT_EQ(&group.carrier(c10::kCPU).carrier(group.device()), &group);
  });
}

TEST_P(CudaRanks, AreReachedFromAGroupOverSharedMemory) {
  if (GetParam() == 1) GTEST_SKIP() << "one rank needs no engine";
  const auto ends = ranks_as_processes(GetParam(), [](const Membership& membership) {
    const auto group = make_communicator("", membership);
    EXPECT_STREQ(group->engine(), "shm");
    at::Tensor tensor = ones(10).to(device_of(membership.rank));
    group->all_reduce(tensor);
    EXPECT_TRUE(tensor.eq(membership.world_size).all().item<bool>());
    EXPECT_STREQ(group->carrier(tensor.device()).engine(), "nccl");
  });
  for (const RankOutcome& end : ends) EXPECT_FALSE(end.failed) << end.text;
}

TEST_P(CudaRanks, SplitIntoGroups) {
  each_cuda_rank(GetParam(), [](Communicator& group) {
    const auto half = group.split(group.rank() % 2);
    ASSERT_NE(half, nullptr);
    at::Tensor tensor = on(group, ones(4));
    half->all_reduce(tensor);
    EXPECT_TRUE(tensor.eq(half->world_size()).all().item<bool>());
  });
}

TEST_P(CudaRanks, SendAndReceiveInAnyOrder) {
  if (GetParam() == 1) GTEST_SKIP() << "messages need two ranks";
  each_cuda_rank(GetParam(), [](Communicator& group) {
    const int next = (group.rank() + 1) % group.world_size();
    const int before = (group.rank() + group.world_size() - 1) % group.world_size();
    at::Tensor first = on(group, at::zeros({100000}));
    at::Tensor second = on(group, at::zeros({3}));
    const auto receives_second = group.irecv(second, before, 7);
    const auto sends_first = group.isend(on(group, at::full({100000}, group.rank(), at::kFloat)), next);
    const auto sends_second = group.isend(on(group, at::full({3}, 10 + group.rank(), at::kFloat)), next, 7);
    group.recv(first, before);
    for (const auto& work : {receives_second, sends_first, sends_second}) work->wait();
    EXPECT_TRUE(first.eq(before).all().item<bool>());
    EXPECT_TRUE(second.eq(10 + before).all().item<bool>());
  });
}

TEST(CudaDevice, OfTwoRanksIsRefused) {
  SKIP_WITHOUT_CUDA(1);
  const auto ends = ranks_as_processes(2, [](const Membership& membership) {
    const c10::DeviceGuard current(device_of(0));
    make_communicator("nccl", membership);
  });
  for (const RankOutcome& end : ends) {
    EXPECT_NE(end.text.find("rank 0 on "), std::string::npos) << end.text;
    EXPECT_NE(end.text.find("and rank 1 on "), std::string::npos) << end.text;
    EXPECT_NE(end.text.find("one rank for each device"), std::string::npos) << end.text;
  }
}

TEST(CudaDevice, OfOneRankNeedsNoEngine) {
  SKIP_WITHOUT_CUDA(1);
  run_ranks_as_processes(1, [](const Membership& membership) {
    const auto group = make_communicator("", membership);
    at::Tensor out = at::zeros({3}, at::TensorOptions().device(device_of(0)));
    const at::Tensor in = at::ones({3}, out.options());
    group->all_gather(out, in);
    group->all_reduce_async(out)->wait();
    EXPECT_TRUE(out.eq(1).all().item<bool>());
  });
}

}  // namespace
}  // namespace lockstep
