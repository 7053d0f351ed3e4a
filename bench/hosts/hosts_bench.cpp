// lockstep-bench-hosts: all-reduce between hosts, which are network namespaces of this machine joined by links of a
// given rate: the flat engines and the hierarchical one, and those that can be encrypted once more encrypted, in turn,
// in the same processes.
//   lockstep-bench-hosts [RATE] [HOSTS] [RANKS PER HOST] [ROUNDS], as in: lockstep-bench-hosts 1gbit 2 2 7
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <CLI/CLI.hpp>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "bench/measure/measurement.h"
#include "lockstep/comm/factory.h"
#include "lockstep/net/subgroup.h"
#include "tests/support/ranks.h"
#include "tools/hosts/network_hosts.h"

namespace lockstep {
namespace {

const std::vector<std::int64_t> kCounts = {1, 1 << 8, 1 << 14, 1 << 18, 25 << 18};  // floats: 4 bytes to 25 MiB

struct Contender {
  std::string engine;
  bool encrypted = false;

  std::string name() const { return encrypted ? engine + " encrypted" : engine; }
};

// Those of this build; the hierarchical one needs a host with several ranks.
std::vector<Contender> contenders_for(int ranks_per_host) {
  std::vector<Contender> contenders;
  for (const Engine& engine : available_engines()) {
    const std::string name = engine.name;
    const bool is_ours = name == "tcp" || (name == "hierarchical" && ranks_per_host > 1);
    if (is_ours || name == "gloo") contenders.push_back({name, false});
    if (is_ours) contenders.push_back({name, true});
  }
  return contenders;
}

std::unique_ptr<Communicator> group_of(const Membership& membership, const Contender& contender) {
  std::vector<int> all(static_cast<std::size_t>(membership.world_size));
  std::iota(all.begin(), all.end(), 0);
  ::setenv("LOCKSTEP_ENCRYPT", contender.encrypted ? "1" : "0", 1);
  auto group = make_communicator(contender.engine, subgroup(membership, all, contender.name()));
  group->barrier();  // all have connected to all
  return group;
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

void measure(const Membership& membership, const std::vector<Contender>& contenders, int rounds) {
  std::vector<std::unique_ptr<Communicator>> groups;
  for (const Contender& contender : contenders) groups.push_back(group_of(membership, contender));
  for (const std::int64_t count : kCounts) {
    std::vector<std::vector<double>> times(groups.size());
    for (int round = -1; round < rounds; ++round) {  // the first one warms up
      for (std::size_t i = 0; i < groups.size(); ++i) {
        at::Tensor tensor = at::full({count}, round, at::kFloat);
        const double seconds = seconds_of(*groups[i], tensor);
        if (round >= 0) times[i].push_back(seconds);
      }
    }
    if (membership.rank != 0) continue;
    fmt::print("{:>10}", count * 4);
    for (const std::vector<double>& of_one : times) fmt::print(" {:>25.3f}", median(of_one) * 1e3);
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
  const std::vector<Contender> contenders = contenders_for(ranks_per_host);
  fmt::print("{:>10}", "bytes");
  for (const Contender& contender : contenders) fmt::print(" {:>25}", contender.name() + " ms");
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
      host_count * ranks_per_host, [&](const Membership& membership) { measure(membership, contenders, rounds); },
      options);
  return 0;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  std::string link = "1gbit";
  int hosts = 2, ranks = 2, rounds = 7;
  CLI::App app("All-reduce between hosts, by every engine in turn. The hosts are network namespaces of this machine.");
  app.add_option("LINK", link, "rate of each host's link, as tc has it: 100mbit, 1gbit, 40gbit")->capture_default_str();
  app.add_option("HOSTS", hosts)->check(CLI::Range(2, 16))->capture_default_str();
  app.add_option("RANKS", ranks, "of each host")->check(CLI::Range(1, 64))->capture_default_str();
  app.add_option("ROUNDS", rounds, "rounds, whose medians are printed")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    return lockstep::run(link, hosts, ranks, rounds);
  } catch (const std::exception& error) {
    fmt::print(stderr, "lockstep-bench-hosts: {}\n", error.what());
    return 1;
  }
}
