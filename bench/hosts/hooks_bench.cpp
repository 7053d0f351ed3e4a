// lockstep-bench-hooks: a training step between two hosts, which are network namespaces of this machine joined by a
// slow link, with each of the hooks that send less; or how well each of them learns MNIST.
//   lockstep-bench-hooks [RATE] [ROUNDS], as in: lockstep-bench-hooks 100mbit 5
//   lockstep-bench-hooks convergence FOLDER [EPOCHS], as in: lockstep-bench-hooks convergence data/mnist 6
#include <fmt/format.h>
#include <stdlib.h>
#include <torch/torch.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/measure/measurement.h"
#include "lockstep/comm/factory.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "tests/support/digits_training.h"
#include "tests/support/ranks.h"
#include "tests/support/slow_network_ways.h"
#include "tools/hosts/network_hosts.h"

namespace lockstep {
namespace {

// Median milliseconds of a step.
double step_ms(const SlowNetworkWay& way, const std::shared_ptr<Communicator>& group, int rounds) {
  torch::nn::Sequential model(torch::nn::Linear(512, 1536), torch::nn::ReLU(), torch::nn::Linear(1536, 1024),
                              torch::nn::ReLU(), torch::nn::Linear(1024, 10));
  DistributedDataParallelOptions options;
  options.process_group = group;
  DistributedDataParallel<torch::nn::Sequential> ddp(model, options);
  ddp.register_comm_hook(way.hook());
  const auto after_step = way.after_step(group, model->parameters());
  torch::optim::SGD optimizer(model->parameters(), 0.01);
  const at::Tensor input = torch::randn({32, 512}), labels = torch::zeros({32}, torch::kLong);
  std::vector<double> times;
  for (int round = -1; round < rounds; ++round) {  // the first one warms up
    group->barrier();
    const auto start = std::chrono::steady_clock::now();
    for (int step = 0; step < way.period; ++step) {
      optimizer.zero_grad();
      torch::nn::functional::cross_entropy(ddp(input), labels).backward();
      optimizer.step();
      after_step(model->parameters());
    }
    group->barrier();
    const double passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (round >= 0) times.push_back(passed * 1e3 / way.period);
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
        const std::shared_ptr<Communicator> group = make_communicator("tcp", membership);
        double first = 0;
        for (const SlowNetworkWay& way : slow_network_ways(0)) {
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

// Compares the accuracy that 2 and 4 ranks reach in an equal number of passes over the images.
int run_convergence(const std::string& folder, int epochs) {
  const auto data = read_digits(folder, 12800);
  if (!data) {
    fmt::print(stderr, "lockstep-bench-hooks: there is no MNIST in {}\n", folder);
    return 1;
  }
  const std::vector<SlowNetworkWay> ways = slow_network_ways(20);
  std::map<int, std::vector<TrainingEnd>> ends;
  for (const int ranks : {2, 4}) {
    run_ranks_as_threads(ranks, [&](const Membership& membership) {
      const std::shared_ptr<Communicator> group = make_communicator("", membership);
      for (const SlowNetworkWay& way : ways) {
        const TrainingEnd end = train_on_digits(way, group, *data, epochs);
        if (membership.rank == 0) ends[ranks].push_back(end);
      }
    });
  }
  fmt::print(
      "MNIST's first 12800 images, {} passes, batches of 32 a rank; loss and accuracy on its 10000 test images\n"
      "{:<26} {:>20} {:>20}\n",
      epochs, "way", "2 ranks", "4 ranks");
  for (std::size_t i = 0; i < ways.size(); ++i) {
    fmt::print("{:<26} {:>10.4f} {:>7.2f} % {:>10.4f} {:>7.2f} %\n", ways[i].name, ends[2][i].loss, ends[2][i].accuracy,
               ends[4][i].loss, ends[4][i].accuracy);
  }
  return 0;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  try {
    if (argc > 2 && std::string(argv[1]) == "convergence") {
      at::set_num_threads(1);
      return lockstep::run_convergence(argv[2], argc > 3 ? std::atoi(argv[3]) : 6);
    }
    return lockstep::run(argc > 1 ? argv[1] : "100mbit", argc > 2 ? std::atoi(argv[2]) : 5);
  } catch (const std::exception& error) {
    fmt::print(stderr, "lockstep-bench-hooks: {}\n", error.what());
    return 1;
  }
}
