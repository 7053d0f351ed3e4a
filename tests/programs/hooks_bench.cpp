// lockstep-bench-hooks: a training step between two hosts that are network namespaces of this machine, joined by a slow
// link, with each of the ways to send less.
//   lockstep-bench-hooks [RATE] [ROUNDS], as in: lockstep-bench-hooks 100mbit 5
#include <fmt/format.h>
#include <stdlib.h>
#include <torch/torch.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/comm/factory.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/parallel/local_sgd.h"
#include "lockstep/parallel/power_sgd_hook.h"
#include "tests/support/network_hosts.h"
#include "tests/support/ranks.h"
#include "tools/lockstep/measurement.h"

namespace lockstep {
namespace {

constexpr int kPeriod = 8;  // steps between the meetings of those that meet now and then

// How ranks are kept together: a hook for gradients, and what is done after each step.
struct Way {
  std::string name;
  int steps;  // in a round: what a way does in some steps only is shared among all
  std::function<std::unique_ptr<CommunicationHook>()> hook;
  std::function<std::function<void(const std::vector<at::Tensor>&)>(std::shared_ptr<Communicator>)> after_step;
};

std::vector<Way> ways() {
  const auto nothing = [](std::shared_ptr<Communicator>) { return [](const std::vector<at::Tensor>&) {}; };
  const auto power = [] {
    PowerSGDOptions options;
    options.matrix_approximation_rank = 4;
    options.start_powerSGD_iter = 0;
    return power_sgd_hook(options);
  };
  const auto post_local = [] {
    PostLocalSGDOptions options;
    options.start_localSGD_iter = 0;
    return post_local_sgd_hook(options);
  };
  const auto averager = [](std::shared_ptr<Communicator> group) {
    auto periodic = std::make_shared<PeriodicModelAverager>(kPeriod, 0, std::move(group));
    return [periodic](const std::vector<at::Tensor>& parameters) { periodic->average_parameters(parameters); };
  };
  const auto diloco = [](std::shared_ptr<Communicator> group) {
    auto outer = std::make_shared<std::unique_ptr<DiLoCo>>();
    return [outer, group](const std::vector<at::Tensor>& parameters) {
      DiLoCoOptions options;
      options.sync_every = kPeriod;
      if (!*outer) *outer = std::make_unique<DiLoCo>(parameters, options, group);
      (*outer)->step();
    };
  };
  return {{"allreduce (fp32)", 1, allreduce_hook, nothing},
          {"bf16", 1, bf16_compress_hook, nothing},
          {"int8", 1, int8_compress_hook, nothing},
          {"powersgd, rank 4", 1, power, nothing},
          {fmt::format("post-local SGD, every {}", kPeriod), kPeriod, post_local, averager},
          {fmt::format("DiLoCo, every {}", kPeriod), kPeriod, noop_hook, diloco}};
}

// Median milliseconds of a step.
double step_ms(const Way& way, const std::shared_ptr<Communicator>& group, int rounds) {
  torch::nn::Sequential model(torch::nn::Linear(512, 1536), torch::nn::ReLU(), torch::nn::Linear(1536, 1024),
                              torch::nn::ReLU(), torch::nn::Linear(1024, 10));
  DistributedDataParallelOptions options;
  options.process_group = group;
  DistributedDataParallel<torch::nn::Sequential> ddp(model, options);
  ddp.register_comm_hook(way.hook());
  const auto after_step = way.after_step(group);
  torch::optim::SGD optimizer(model->parameters(), 0.01);
  const at::Tensor input = torch::randn({32, 512}), labels = torch::zeros({32}, torch::kLong);
  std::vector<double> times;
  for (int round = -1; round < rounds; ++round) {  // the first one warms up
    group->barrier();
    const auto start = std::chrono::steady_clock::now();
    for (int step = 0; step < way.steps; ++step) {
      optimizer.zero_grad();
      torch::nn::functional::cross_entropy(ddp(input), labels).backward();
      optimizer.step();
      after_step(model->parameters());
    }
    group->barrier();
    const double passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (round >= 0) times.push_back(passed * 1e3 / way.steps);
  }
  return median(times);
}

int run(const std::string& rate, int rounds) {
  if (const auto reason = NetworkHosts::why_not()) {
    fmt::print(stderr, "lockstep-bench-hooks: {}\n", *reason);
    return 1;
  }
  const NetworkHosts hosts(2, rate);
  std::string load;
  std::getline(std::ifstream("/proc/loadavg"), load);
  fmt::print("2 hosts of a rank each, a link of {}; 9.5 MB of gradients; {} rounds, medians; load {}\n", rate, rounds,
             load);
  fmt::print("{:<26} {:>10} {:>8}\n", "way", "ms a step", "faster");
  std::fflush(stdout);
  RanksOptions options;
  options.timeout = std::chrono::seconds(60);
  options.deadline = std::chrono::minutes(10);
  options.prepare = [&](int rank) {
    hosts.enter(rank);
    ::setenv("MASTER_ADDR", hosts.address(0).c_str(), 1);
    at::set_num_threads(1);
  };
  run_ranks_as_processes(
      2,
      [&](const Membership& membership) {
        const std::shared_ptr<Communicator> group = make_communicator("gloo", membership);
        double first = 0;
        for (const Way& way : ways()) {
          const double ms = step_ms(way, group, rounds);
          if (first == 0) first = ms;
          if (membership.rank != 0) continue;
          fmt::print("{:<26} {:>10.1f} {:>8.2f}\n", way.name, ms, first / ms);
          std::fflush(stdout);
        }
      },
      options);
  return 0;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  try {
    return lockstep::run(argc > 1 ? argv[1] : "100mbit", argc > 2 ? std::atoi(argv[2]) : 5);
  } catch (const std::exception& error) {
    fmt::print(stderr, "lockstep-bench-hooks: {}\n", error.what());
    return 1;
  }
}
