// lockstep-bench-stages: a training step between hosts with what ranks share out (nothing, state, gradients, weights):
// its time, what a host sends, and what a host holds. Beside it Python's DDP and fully_shard over Gloo in the same
// network namespaces.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "bench/measure/measurement.h"
#include "tests/support/host_job.h"
#include "tests/support/network_hosts.h"
#include "tests/support/running_program.h"
#include "tools/lockstep/companion.h"

namespace lockstep {
namespace {

struct Contender {
  std::string name;
  std::vector<std::string> command;
  HostJobOptions options;
  std::vector<double> median_ms;  // one per round
  double sent_mib = 0;            // of a host, a step
  double held_mib = 0;            // of a host
};

struct StagesBench {
  std::string link = "1gbit";
  int host_count = 2;
  int ranks_per_host = 1;
  std::string model = "bert-mini";
  int batch = 4;
  int seq = 64;
  int rounds = 5;
  int steps = 9;
  std::string python = "/usr/bin/python3";
  bool no_peer = false;

  void add(CLI::App& app) {
    app.add_option("--link", link, "rate of each host's link, as tc writes it")->capture_default_str();
    app.add_option("--hosts", host_count, "2 to 4")->capture_default_str()->check(CLI::Range(2, 4));
    app.add_option("--ranks-per-host", ranks_per_host)->capture_default_str()->check(CLI::Range(1, 8));
    app.add_option("--model", model, "mlp, convnet, bert-tiny, bert-mini, bert-small, bert-base, gpt2")
        ->capture_default_str();
    app.add_option("--batch", batch, "samples of each rank")->capture_default_str()->check(CLI::PositiveNumber);
    app.add_option("--seq", seq, "tokens of each text")->capture_default_str()->check(CLI::PositiveNumber);
    app.add_option("--rounds", rounds, "turns of each system, which are timed; a further one is not, and shows memory")
        ->capture_default_str()
        ->check(CLI::Range(1, 99));
    app.add_option("--steps", steps, "steps of a turn")->capture_default_str()->check(CLI::Range(3, 9999));
    app.add_option("--python", python, "interpreter whose torch has fully_shard (2.6 or newer)")->capture_default_str();
    app.add_flag("--no-peer", no_peer, "ours alone");
    app.footer(
        "Example: lockstep-bench-stages --link 1gbit --model bert-mini --batch 16 --seq 128 --python venv/bin/python");
  }

  std::optional<std::string> why_no_peer() const {
    if (no_peer) return "not asked for";
    const ProgramEnd end = run_program({python, "-c", "from torch.distributed.fsdp import fully_shard"});
    if (end.code == 0) return std::nullopt;
    return python + " has no torch with fully_shard";
  }

  Contender contender(const std::string& name, std::vector<std::string> command) const {
    for (const std::string& word :
         {std::string("--model"), model, std::string("--batch"), std::to_string(batch), std::string("--seq"),
          std::to_string(seq), std::string("--steps"), std::to_string(steps)}) {
      command.push_back(word);
    }
    HostJobOptions options;
    options.ranks_per_host = ranks_per_host;
    return {name, std::move(command), options, {}};
  }

  std::vector<Contender> contenders(bool with_peers) const {
    const std::string worker = companion_program("lockstep-step-worker");
    std::vector<Contender> all;
    all.push_back(contender("all-reduce", {worker, "--mode", "unfused"}));
    all.push_back(contender("stage 1", {worker, "--mode", "fused"}));
    all.push_back(contender("stage 2", {worker, "--mode", "stage-2"}));
    all.push_back(contender("stage 3", {worker, "--mode", "stage-3"}));
    if (!with_peers) return all;
    const std::string script = std::string(LOCKSTEP_BENCH_DIR) + "/peers/pytorch_step.py";
    for (const char* wrapper : {"ddp", "fsdp2"}) {
      all.push_back(contender(std::string("PyTorch's ") + wrapper, {python, script, "--wrapper", wrapper}));
      all.back().options.variables["GLOO_SOCKET_IFNAME"] = "eth0";
    }
    return all;
  }

  void report(const std::vector<Contender>& all) const {
    fmt::print(
        "{} hosts of {} rank(s), links of {}; {}, batch {} a rank, {} tokens; {} rounds of {} steps, medians; "
        "load {:.2f}\n\n",
        host_count, ranks_per_host, link, model, batch, seq, rounds, steps, load_average());
    fmt::print("{:<16} {:>9} {:>9} {:>22} {:>14} {:>14}\n", "", "ms", "best", "of stage 1's time", "a host sends",
               "a host holds");
    const Contender& base = all[1];
    for (const Contender& one : all) {
      std::vector<double> ratios;
      for (std::size_t r = 0; r < one.median_ms.size(); ++r) ratios.push_back(one.median_ms[r] / base.median_ms[r]);
      const auto [least, most] = std::minmax_element(ratios.begin(), ratios.end());
      fmt::print("{:<16} {:>9.1f} {:>9.1f} {:>22} {:>10.1f} MiB {:>10.0f} MiB\n", one.name, median(one.median_ms),
                 *std::min_element(one.median_ms.begin(), one.median_ms.end()),
                 fmt::format("{:.2f} ({:.2f} to {:.2f})", median(ratios), *least, *most), one.sent_mib, one.held_mib);
    }
  }

  int run() const {
    if (const auto reason = NetworkHosts::why_not()) {
      fmt::print(stderr, "lockstep-bench-stages: {}\n", *reason);
      return 1;
    }
    const auto missing = why_no_peer();
    const NetworkHosts hosts(host_count, link);
    const std::string bin = std::filesystem::path(companion_path("")).parent_path().string();
    std::vector<Contender> all = contenders(!missing);
    for (int round = 0; round < rounds; ++round) {
      for (Contender& one : all) {
        const auto result = run_on_hosts(hosts, bin, one.command, one.options);
        one.median_ms.push_back(result["median_ms"]);
        one.sent_mib = result["sent_bytes"].get<double>() / (1 << 20);
      }
    }
    for (Contender& one : all) {
      std::vector<std::string> command = one.command;
      command.push_back("--memory");
      one.held_mib = run_on_hosts(hosts, bin, command, one.options)["held_mib"].get<double>() / host_count;
    }
    report(all);
    if (missing) fmt::print("PyTorch's: left out, {}\n", *missing);
    return 0;
  }
};

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  lockstep::StagesBench bench;
  CLI::App app(
      "A training step between hosts by what its ranks share out: time, traffic and memory, beside PyTorch's DDP and "
      "fully_shard. The hosts are network namespaces of this machine.");
  bench.add(app);
  CLI11_PARSE(app, argc, argv);
  try {
    return bench.run();
  } catch (const std::exception& error) {
    fmt::print(stderr, "lockstep-bench-stages: {}\n", error.what());
    return 1;
  }
}
