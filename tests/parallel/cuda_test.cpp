// Compares data parallelism on CUDA devices with one process on the CPU. Ranks are processes; this one does not use
// CUDA, so that it can fork others.
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/comm/factory.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/parallel/sync_batch_norm.h"
#include "lockstep/replicas/data_parallel.h"
#include "tests/support/cuda_devices.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

constexpr int kCudaSteps = 4;
constexpr std::int64_t kCudaRows = 6;  // on each rank

struct CudaNetImpl : torch::nn::Cloneable<CudaNetImpl> {
  CudaNetImpl() { reset(); }
  void reset() override {
    first = register_module("first", torch::nn::Linear(5, 16));
    second = register_module("second", torch::nn::Linear(16, 3));
    unused = register_module("unused", torch::nn::Linear(2, 2));
  }
  at::Tensor forward(const at::Tensor& x) { return second(first(x).tanh()); }
  torch::nn::Linear first{nullptr}, second{nullptr}, unused{nullptr};
};
TORCH_MODULE(CudaNet);

at::Tensor cuda_inputs(int step, std::int64_t rows) {
  return torch::arange(rows * 5, torch::kFloat).mul(0.37).add(step).sin().view({rows, 5});
}

CudaNet same_net() {
  torch::manual_seed(7);
  return CudaNet();
}

// The weights after some steps over the whole batch in one process on the CPU. In a rank's process: a backward starts
// threads for the devices, after which this one cannot be forked.
std::vector<at::Tensor> weights_on_cpu(int world_size) {
  CudaNet net = same_net();
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  for (int step = 0; step < kCudaSteps; ++step) {
    optimizer.zero_grad();
    net->forward(cuda_inputs(step, world_size * kCudaRows)).square().mean().backward();
    optimizer.step();
  }
  return net->parameters();
}

void expect_all_near(const std::vector<at::Tensor>& got, const std::vector<at::Tensor>& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(got[i].is_cuda());
    EXPECT_TRUE(got[i].cpu().allclose(want[i], tolerance, tolerance)) << "parameter " << i;
  }
}

c10::Device device_of_rank(int rank) { return {c10::kCUDA, static_cast<c10::DeviceIndex>(rank)}; }

struct CudaDdpCase {
  int world_size;
  const char* engine;  // "": the default, which sends CUDA tensors by another engine
  const char* hook;    // "" for none
  double tolerance;
};

class CudaDdp : public ::testing::TestWithParam<CudaDdpCase> {};
INSTANTIATE_TEST_SUITE_P(Ranks, CudaDdp,
                         ::testing::Values(CudaDdpCase{1, "nccl", "", 1e-5}, CudaDdpCase{1, "", "", 1e-5},
                                           CudaDdpCase{1, "nccl", "bf16", 0.05}, CudaDdpCase{2, "nccl", "", 1e-5},
                                           CudaDdpCase{2, "", "", 1e-5}, CudaDdpCase{2, "", "fp16", 0.01},
                                           CudaDdpCase{2, "nccl", "int8", 0.05}, CudaDdpCase{2, "", "powersgd", 0.5},
                                           CudaDdpCase{4, "", "", 1e-5}, CudaDdpCase{8, "", "", 1e-5}),
                         [](const auto& test) {
                           const CudaDdpCase& c = test.param;
                           return std::to_string(c.world_size) + (c.engine[0] != 0 ? "_nccl" : "_default") +
                                  (c.hook[0] != 0 ? "_" : "") + c.hook;
                         });

TEST_P(CudaDdp, EqualsOneProcessOnTheCpu) {
  const CudaDdpCase& param = GetParam();
  SKIP_WITHOUT_CUDA(param.world_size);
  run_ranks_as_processes(param.world_size, [&](const Membership& membership) {
    const auto want = weights_on_cpu(param.world_size);
    const c10::DeviceGuard current(device_of_rank(membership.rank));
    DistributedDataParallelOptions options;
    options.process_group = make_communicator(param.engine, membership);
    CudaNet net = same_net();
    net->to(device_of_rank(membership.rank));
    DistributedDataParallel ddp(net, options);
    EXPECT_TRUE(ddp.process_group().device().is_cuda());
    if (param.hook[0] != 0) ddp.register_comm_hook(make_communication_hook(param.hook));
    torch::optim::SGD optimizer(net->parameters(), 0.1);
    for (int step = 0; step < kCudaSteps; ++step) {
      const at::Tensor mine =
          cuda_inputs(step, param.world_size * kCudaRows).narrow(0, membership.rank * kCudaRows, kCudaRows);
      optimizer.zero_grad();
      ddp(mine.to(device_of_rank(membership.rank))).square().mean().backward();
      EXPECT_EQ(ddp.last_step().unused_parameters, 2u);
      optimizer.step();
    }
    expect_all_near(net->parameters(), want, param.tolerance);
  });
}

// Small buckets hide a slow network of hosts. NCCL has a kernel for each.
TEST(CudaDdpBetweenHosts, SendsAsFewBucketsAsOnOneHost) {
  SKIP_WITHOUT_CUDA(2);
  run_ranks_as_processes(2, [](const Membership& membership) {
    const c10::DeviceGuard current(device_of_rank(membership.rank));
    Membership apart = membership;
    for (Peer& peer : apart.peers) peer.host_id += std::to_string(peer.global_rank);
    DistributedDataParallelOptions options;
    options.process_group = make_communicator("nccl", apart);
    torch::nn::Sequential net(torch::nn::Linear(1000, 1000), torch::nn::Linear(1000, 1000), torch::nn::Linear(1000, 1));
    net->to(device_of_rank(membership.rank));
    DistributedDataParallel ddp(net, options);
    ddp(at::ones({2, 1000}, at::TensorOptions(device_of_rank(membership.rank)))).sum().backward();
    EXPECT_EQ(ddp.last_step().buckets, 2u);
  });
}

class CudaNorm : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, CudaNorm, ::testing::Values(1, 2, 3), ::testing::PrintToStringParamName());

TEST_P(CudaNorm, OverAllRanksEqualsThatOfTheWholeBatch) {
  SKIP_WITHOUT_CUDA(GetParam());
  run_ranks_as_processes(GetParam(), [](const Membership& membership) {
    const c10::Device device = device_of_rank(membership.rank);
    const c10::DeviceGuard current(device);
    SyncBatchNormOptions options(5);
    options.process_group = make_communicator("nccl", membership);
    SyncBatchNorm ours(options);
    ours->to(device);
    torch::nn::BatchNorm1d reference(5);
    const at::Tensor whole = cuda_inputs(1, membership.world_size * kCudaRows).requires_grad_(true);
    const at::Tensor want = reference(whole);
    want.pow(3).sum().backward();
    const at::Tensor mine =
        whole.detach().narrow(0, membership.rank * kCudaRows, kCudaRows).to(device).clone().requires_grad_(true);
    const at::Tensor got = ours->forward(mine);
    got.pow(3).sum().backward();
    EXPECT_TRUE(got.cpu().allclose(want.narrow(0, membership.rank * kCudaRows, kCudaRows), 1e-3, 1e-4));
    EXPECT_TRUE(mine.grad().cpu().allclose(whole.grad().narrow(0, membership.rank * kCudaRows, kCudaRows), 1e-3, 1e-4));
    EXPECT_TRUE(ours->running_var.cpu().allclose(reference->running_var, 1e-4));
  });
}

class CudaReplicas : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Devices, CudaReplicas, ::testing::Values(1, 2, 4, 8), ::testing::PrintToStringParamName());

std::vector<ReplicaDevice> first_cuda_devices(int count) {
  std::vector<ReplicaDevice> devices;
  for (int i = 0; i < count; ++i) devices.emplace_back("cuda:" + std::to_string(i));
  return devices;
}

// The weights after the steps of weights_on_cpu, made by replicas on devices.
std::vector<at::Tensor> weights_of_replicas(int devices) {
  CudaNet net = same_net();
  net->to(device_of_rank(0));
  DataParallel<CudaNet> dp(net, first_cuda_devices(devices));
  torch::optim::SGD optimizer(net->parameters(), 0.1);  // it leaves no trace in the weights' versions
  for (int step = 0; step < kCudaSteps; ++step) {
    optimizer.zero_grad();
    const at::Tensor output = dp.forward(cuda_inputs(step, devices * kCudaRows));  // scattered from the CPU
    EXPECT_EQ(output.device(), device_of_rank(0));
    output.square().mean().backward();
    optimizer.step();
  }
  return net->parameters();
}

TEST_P(CudaReplicas, EqualOneProcessOnTheCpu) {
  SKIP_WITHOUT_CUDA(GetParam());
  run_ranks_as_processes(1, [&](const Membership&) {
    const auto want = weights_on_cpu(GetParam());
    expect_all_near(weights_of_replicas(GetParam()), want, 1e-5);
  });
}

// Streams of a program's own do not wait for the devices' default ones.
TEST_P(CudaReplicas, FollowTheCallersStreams) {
  SKIP_WITHOUT_CUDA(GetParam());
  run_ranks_as_processes(1, [&](const Membership&) {
    const auto want = weights_on_cpu(GetParam());
    const c10::impl::VirtualGuardImpl cuda(c10::kCUDA);
    for (int i = 0; i < GetParam(); ++i) cuda.exchangeStream(cuda.getStreamFromGlobalPool(device_of_rank(i)));
    expect_all_near(weights_of_replicas(GetParam()), want, 1e-5);
  });
}

// The second forward must leave the weights alone that the first one's backward needs.
TEST_P(CudaReplicas, MayRunTwoForwardsBeforeABackward) {
  SKIP_WITHOUT_CUDA(GetParam());
  run_ranks_as_processes(1, [&](const Membership&) {
    CudaNet plain = same_net();
    CudaNet net = same_net();
    net->to(device_of_rank(0));
    DataParallel<CudaNet> dp(net, first_cuda_devices(GetParam()));
    const auto loss = [&](const auto& forward) {
      const at::Tensor first = forward(cuda_inputs(0, GetParam() * kCudaRows));
      const at::Tensor second = forward(cuda_inputs(1, GetParam() * kCudaRows));
      return first.square().mean() + second.square().mean();
    };
    loss([&](const at::Tensor& x) { return plain->forward(x); }).backward();
    loss([&](const at::Tensor& x) { return dp.forward(x); }).backward();
    std::vector<at::Tensor> got;
    std::vector<at::Tensor> want;
    for (const at::Tensor& parameter : net->parameters()) got.push_back(parameter.grad());
    for (const at::Tensor& parameter : plain->parameters()) want.push_back(parameter.grad());
    got.resize(4);  // without those of the module that is not used
    want.resize(4);
    expect_all_near(got, want, 1e-5);
  });
}

// Between two forwards for inference the weights change in ways that no version shows.
TEST_P(CudaReplicas, InferWithTheWeightsThatTheModuleHas) {
  SKIP_WITHOUT_CUDA(GetParam());
  run_ranks_as_processes(1, [&](const Membership&) {
    CudaNet net = same_net();
    net->to(device_of_rank(0));
    DataParallel<CudaNet> dp(net, first_cuda_devices(GetParam()));
    torch::optim::SGD optimizer(net->parameters(), 0.1);
    const at::Tensor rows = cuda_inputs(0, GetParam() * kCudaRows);
    const auto expect_all_replicas_agree = [&](const char* when) {
      const torch::NoGradGuard no_grad;
      const at::Tensor want = net->forward(rows.to(device_of_rank(0)));
      EXPECT_TRUE(dp.forward(rows).allclose(want, 1e-5, 1e-6)) << when;  // rows on the CPU, for any number of devices
    };
    net->eval();  // a forward that trains copies the weights in any case
    expect_all_replicas_agree("at first");
    dp.forward(rows.narrow(0, 0, 1)).square().mean().backward();  // one row: the first replica alone
    optimizer.step();
    expect_all_replicas_agree("after a step on a small batch");
    net->forward(rows.to(device_of_rank(0))).square().mean().backward();
    optimizer.step();
    expect_all_replicas_agree("after a step without DataParallel");
    for (at::Tensor& parameter : net->parameters()) parameter.mutable_grad() = at::Tensor();
    expect_all_replicas_agree("without gradients");
    for (const at::Tensor& parameter : net->parameters()) parameter.data().mul_(1.5);
    dp.weights_changed();
    expect_all_replicas_agree("after a write that it was told of");
  });
}

// A tensor of the first device, which the module has not registered, is part of every replica's graph.
struct CudaShiftImpl : torch::nn::Cloneable<CudaShiftImpl> {
  explicit CudaShiftImpl(at::Tensor the_shift) : shift(std::move(the_shift)) { reset(); }
  void reset() override { linear = register_module("linear", torch::nn::Linear(5, 3)); }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor shifted = linear(x).to(shift.device()) + shift;
    return (shifted * shifted).to(x.device());
  }
  at::Tensor shift;
  torch::nn::Linear linear{nullptr};
};
TORCH_MODULE(CudaShift);

TEST_P(CudaReplicas, MayComputeOnTheFirstDevice) {
  SKIP_WITHOUT_CUDA(GetParam());
  run_ranks_as_processes(1, [&](const Membership&) {
    torch::manual_seed(5);
    CudaShift plain(at::ones({3}).requires_grad_());
    torch::manual_seed(5);
    CudaShift net(at::ones({3}, at::TensorOptions(device_of_rank(0))).requires_grad_());
    net->to(device_of_rank(0));
    DataParallel<CudaShift> dp(net, first_cuda_devices(GetParam()));
    const at::Tensor rows = cuda_inputs(2, GetParam() * kCudaRows);
    plain->forward(rows).mean().backward();
    dp.forward(rows).mean().backward();
    expect_all_near({net->shift.grad(), net->linear->weight.grad()},
                    {plain->shift.grad(), plain->linear->weight.grad()}, 1e-5);
  });
}

}  // namespace
}  // namespace lockstep
