// lockstep-bench-hosts: all-reduce between hosts, which are network namespaces of this machine joined by links of a
// given rate: the flat engines and the hierarchical one, in turn, in the same processes.
//   lockstep-bench-hosts [RATE] [HOSTS] [RANKS PER HOST] [ROUNDS], as in: lockstep-bench-hosts 1gbit 2 2 7
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <stdlib.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "bench/measure/measurement.h"
#include "lockstep/comm/factory.h"
#include "lockstep/net/subgroup.h"
#include "tests/support/network_hosts.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

const std::vector<std::int64_t> kCounts = {1, 1 << 8, 1 << 14, 1 << 18, 25 << 18};  // floats: 4 bytes to 25 MiB

// Those of this build; the hierarchical one needs a host with several ranks.
std::vector<std::string> engines_for(int ranks_per_host) {
  std::vector<std::string> engines;
  for (const Engine& engine : available_engines()) {
    const std::string name = engine.name;
    if (name == "gloo" || name == "tcp" || (name == "hierarchical" && ranks_per_host > 1)) engines.push_back(name);
  }
  return engines;
}

double seconds_of(Communicator& group, at::Tensor& tensor) {
  group.barrier();
  const auto start = std::chrono::steady_clock::now();
  group.all_reduce(tensor, ReduceOp::Avg);
  const double mine = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  at::Tensor longest = at::full({1}, mine, at::kDouble);
  group.all_reduce(longest, ReduceOp::Max);
  return longest.item<double>();
}

void measure(const Membership& membership, const std::vector<std::string>& engines, int rounds) {
  std::vector<int> all(static_cast<std::size_t>(membership.world_size));
  std::iota(all.begin(), all.end(), 0);
  std::map<std::string, std::unique_ptr<Communicator>> groups;
  for (const std::string& engine : engines) {
    groups[engine] = make_communicator(engine, subgroup(membership, all, engine));
  }
  for (const std::int64_t count : kCounts) {
    std::map<std::string, std::vector<double>> times;
    for (int round = -1; round < rounds; ++round) {  // the first one warms up
      for (const std::string& engine : engines) {
        at::Tensor tensor = at::full({count}, round, at::kFloat);
        const double seconds = seconds_of(*groups[engine], tensor);
        if (round >= 0) times[engine].push_back(seconds);
      }
    }
    if (membership.rank != 0) continue;
    fmt::print("{:>10}", count * 4);
    for (const std::string& engine : engines) fmt::print(" {:>16.3f}", median(times[engine]) * 1e3);
    fmt::print("\n");
    std::fflush(stdout);
  }
}

int run(const std::string& rate, int host_count, int ranks_per_host, int rounds) {
  if (const auto reason = NetworkHosts::why_not()) {
    fmt::print(stderr, "lockstep-bench-hosts: {}\n", *reason);
    return 1;
  }
  const NetworkHosts hosts(host_count, rate);
  std::string load;
  std::getline(std::ifstream("/proc/loadavg"), load);
  fmt::print("{} hosts of {} ranks, links of {}; {} rounds, medians; load {}\n", host_count, ranks_per_host, rate,
             rounds, load);
  const std::vector<std::string> engines = engines_for(ranks_per_host);
  fmt::print("{:>10}", "bytes");
  for (const std::string& engine : engines) fmt::print(" {:>16}", engine + " ms");
  fmt::print("\n");
  std::fflush(stdout);
  RanksOptions options;
  options.timeout = std::chrono::seconds(60);
  options.deadline = std::chrono::minutes(10);
  options.prepare = [&](int rank) {
    hosts.enter(rank / ranks_per_host);
    ::setenv("MASTER_ADDR", hosts.address(0).c_str(), 1);
    at::set_num_threads(1);
  };
  run_ranks_as_processes(
      host_count * ranks_per_host, [&](const Membership& membership) { measure(membership, engines, rounds); },
      options);
  return 0;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  const auto number = [&](int index, int otherwise) { return argc > index ? std::atoi(argv[index]) : otherwise; };
  try {
    return lockstep::run(argc > 1 ? argv[1] : "1gbit", number(2, 2), number(3, 2), number(4, 7));
  } catch (const std::exception& error) {
    fmt::print(stderr, "lockstep-bench-hosts: {}\n", error.what());
    return 1;
  }
}
