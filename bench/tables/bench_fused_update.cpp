#include "bench/tables/bench_fused_update.h"

#include <ATen/ATen.h>
#include <torch/nn/module.h>

#include <chrono>
#include <string>

#include "lockstep/comm/spawn.h"
#include "lockstep/parallel/distributed_data_parallel.h"

namespace lockstep {
namespace {

using BenchGroup = std::shared_ptr<Communicator>;

struct ParameterListImpl : torch::nn::Module {
  explicit ParameterListImpl(const std::vector<at::Tensor>& parameters) {
    for (std::size_t i = 0; i < parameters.size(); ++i) register_parameter("p" + std::to_string(i), parameters[i]);
  }
};

// A bound of an all-reduce, which is one pass in place over this rank's gradients, followed by an update of everything.
std::function<void()> reduce_and_step(const FusedUpdateBench& bench) {
  const auto parameters = bench.make_parameters();
  std::int64_t numel = 0;
  for (const at::Tensor& parameter : parameters) numel += parameter.numel();
  const std::shared_ptr<torch::optim::Optimizer> optimizer = bench.theirs(parameters);
  return [optimizer, gradients = at::ones({numel})]() mutable {
    gradients.mul_(1.0001);
    optimizer->step();
  };
}

std::function<void()> fused_step(const FusedUpdateBench& bench, const BenchGroup& group) {
  const auto parameters = bench.make_parameters();
  auto module = std::make_shared<ParameterListImpl>(parameters);
  DistributedDataParallelOptions options;
  options.process_group = group;
  using Wrapped = DistributedDataParallel<std::shared_ptr<ParameterListImpl>>;
  auto ddp = std::make_shared<Wrapped>(module, options);
  auto optimizer = bench.ours(parameters);
  ddp->fuse(*optimizer);
  return [ddp, optimizer] { optimizer->step(); };
}

double slowest_ms(const BenchGroup& group, const std::function<void()>& run) {
  group->barrier();
  const auto start = std::chrono::steady_clock::now();
  run();
  at::Tensor ms = at::empty({1}, at::kDouble);
  *ms.data_ptr<double>() = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  group->all_reduce(ms, ReduceOp::Max);
  return *ms.data_ptr<double>();
}

}  // namespace

std::array<std::vector<double>, 3> time_fused_update(const FusedUpdateBench& bench) {
  std::array<std::vector<double>, 3> result;
  spawn_threads(bench.ranks, [&](const BenchGroup& group) {
    const at::NoGradGuard no_grad;
    std::int64_t numel = 0;
    for (const at::Tensor& parameter : bench.make_parameters()) numel += parameter.numel();
    const std::array<std::function<void()>, 3> contenders{bench.bound(numel), reduce_and_step(bench),
                                                          fused_step(bench, group)};
    for (const auto& run : contenders) run();  // allocates its state
    for (int round = 0; round < bench.rounds; ++round) {
      for (std::size_t i = 0; i < contenders.size(); ++i) {
        const std::size_t turn = (i + static_cast<std::size_t>(round)) % contenders.size();
        bench.evict();
        const double ms = slowest_ms(group, contenders[turn]);
        if (group->rank() == 0) result[turn].push_back(ms);
      }
    }
  });
  return result;
}

}  // namespace lockstep
