// lockstep-bench-stages: a training step between hosts with what ranks share out (nothing, state, gradients, weights):
// its time, what a host sends, and what a host holds. Beside it Python's DDP and fully_shard over Gloo in the same
// network namespaces.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/measure/measurement.h"
#include "lockstep/base/text/precision_name.h"
#include "tests/support/host_job.h"
#include "tests/support/running_program.h"
#include "tools/frame/companion.h"
#include "tools/frame/progress_line.h"
#include "tools/hosts/network_hosts.h"

namespace lockstep {
namespace {

struct Contender {
  std::string name;
  std::vector<std::string> command;
  HostJobOptions options;
  bool fits = true;
  std::vector<double> median_ms;  // one per round
  double sent_mib = 0;            // of a host, a step
  double held_mib = 0;            // of a host
};

const std::vector<std::string> kOurs{"all-reduce", "stage-1", "stage-2", "stage-3", "stage-3-kept"};
const std::vector<std::string> kPeers{"pytorch-ddp", "pytorch-fsdp2"};

struct StagesBench {
  std::string link = "1gbit";
  int host_count = 2;
  int ranks_per_host = 1;
  std::string model = "bert-mini";
  int batch = 4;
  int seq = 64;
  int rounds = 5;
  int steps = 9;
  double memory_gib = 0;
  std::string dtype = "fp32";
  std::string python = "/usr/bin/python3";
  std::vector<std::string> systems = all_systems();

  void add(CLI::App& app) {
    app.add_option("--link", link, "rate of each host's link, as tc writes it")->capture_default_str();
    app.add_option("--hosts", host_count, "2 to 4")->capture_default_str()->check(CLI::Range(2, 4));
    app.add_option("--ranks-per-host", ranks_per_host)->capture_default_str()->check(CLI::Range(1, 8));
    app.add_option("--model", model,
                   "mlp, convnet, bert-tiny, bert-mini, bert-small, bert-base, gpt2, gpt2-medium, gpt2-large")
        ->capture_default_str();
    app.add_option("--batch", batch, "samples of each rank in a step")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    app.add_option("--seq", seq, "tokens of each text")->capture_default_str()->check(CLI::PositiveNumber);
    app.add_option("--rounds", rounds, "turns of each system, which are timed; a further one is not, and shows memory")
        ->capture_default_str()
        ->check(CLI::Range(1, 99));
    app.add_option(
           "--memory", memory_gib,
           "GiB that each host has, by a control group: what needs more is killed, and its row says so; the column "
           "of what a host holds is then the kernel's, with programs and files; default: all of this machine")
        ->check(CLI::PositiveNumber);
    app.add_option("--steps", steps, "steps in a turn")->capture_default_str()->check(CLI::Range(3, 9999));
    app.add_option("--dtype", dtype, "fp32, or bf16: by autocast; fully_shard by its own policy")
        ->capture_default_str()
        ->transform(precision_name)
        ->check(CLI::IsMember({"fp32", "bf16"}));
    app.add_option("--python", python, "interpreter whose torch has fully_shard (2.6 or newer)")->capture_default_str();
    app.add_option(
           "--systems", systems,
           "ours: all-reduce, stage-1, stage-2, stage-3, stage-3-kept; and pytorch-ddp, pytorch-fsdp2; default: all")
        ->delimiter(',')
        ->check(CLI::IsMember(all_systems()));
    app.footer(
        "Examples:\n"
        "  lockstep-bench-stages --link 1gbit --model bert-mini --batch 16 --seq 128 --python venv/bin/python\n"
        "  lockstep-bench-stages --link 10gbit --model gpt2-large --batch 1 --memory 8 --rounds 1 --steps 3");
  }

  static std::vector<std::string> all_systems() {
    std::vector<std::string> all = kOurs;
    all.insert(all.end(), kPeers.begin(), kPeers.end());
    return all;
  }

  std::optional<std::string> why_no_peer() const {
    const ProgramEnd end = run_program({python, "-c", "from torch.distributed.fsdp import fully_shard"});
    if (end.code == 0) return std::nullopt;
    return python + " has no torch with fully_shard";
  }

  Contender contender(const std::string& name) const {
    Contender one;
    one.name = name;
    one.options.ranks_per_host = ranks_per_host;
    one.options.deadline = std::chrono::minutes(30);
    if (is_peer(name)) {
      const std::string script = std::string(LOCKSTEP_BENCH_DIR) + "/peers/pytorch_step.py";
      one.command = {python, script, "--wrapper", name.substr(std::string("pytorch-").size())};
      one.options.variables["GLOO_SOCKET_IFNAME"] = "eth0";
    } else {
      const std::string mode = name == "all-reduce" ? "unfused" : name == "stage-1" ? "fused" : name;
      one.command = {companion_program("lockstep-step-worker"), "--mode", mode};
    }
    for (const std::string& word :
         {std::string("--model"), model, std::string("--batch"), std::to_string(batch), std::string("--seq"),
          std::to_string(seq), std::string("--steps"), std::to_string(steps), std::string("--dtype"), dtype}) {
      one.command.push_back(word);
    }
    return one;
  }
  static bool is_peer(const std::string& name) { return name.rfind("pytorch-", 0) == 0; }

  void take_turn(Contender& one, const NetworkHosts& hosts, const std::string& bin) const {
    const auto result = run(one, one.command, hosts, bin);
    if (!one.fits) return;
    one.median_ms.push_back(result["median_ms"]);
    one.sent_mib = result["sent_bytes"].get<double>() / (1 << 20);
  }

  void measure_memory(Contender& one, const NetworkHosts& hosts, const std::string& bin) const {
    std::vector<std::string> command = one.command;
    command.push_back("--memory");
    const auto result = run(one, command, hosts, bin);
    one.held_mib = result["held_mib"].get<double>() / host_count;
  }

  void measure(std::vector<Contender>& all, const NetworkHosts& hosts, const std::string& bin) const {
    const ProgressLine progress;
    for (int round = 0; round < rounds; ++round) {
      for (Contender& one : all) {
        if (!one.fits) continue;
        progress.show(fmt::format("round {} of {}: {}", round + 1, rounds, one.name));
        take_turn(one, hosts, bin);
      }
    }
    for (Contender& one : all) {
      if (!one.fits || memory_gib != 0) continue;
      progress.show(fmt::format("memory: {}", one.name));
      measure_memory(one, hosts, bin);
    }
  }

  // Runs a contender, within limits if there are some. A job of which the kernel has killed a process does not fit.
  nlohmann::ordered_json run(Contender& one, const std::vector<std::string>& command, const NetworkHosts& hosts,
                             const std::string& bin) const {
    std::vector<std::unique_ptr<MemoryLimit>> limits;
    HostJobOptions options = one.options;
    for (int host = 0; memory_gib > 0 && host < host_count; ++host) {
      limits.push_back(std::make_unique<MemoryLimit>(static_cast<std::int64_t>(memory_gib * (1 << 30))));
      options.limits.push_back(limits.back().get());
    }
    try {
      auto result = run_on_hosts(hosts, bin, command, options);
      for (const auto& limit : limits) {
        one.held_mib = std::max(one.held_mib, static_cast<double>(limit->peak()) / (1 << 20));
      }
      return result;
    } catch (const std::runtime_error&) {
      const auto killed = [](const std::unique_ptr<MemoryLimit>& limit) { return limit->has_killed(); };
      if (std::none_of(limits.begin(), limits.end(), killed)) throw;
      one.fits = false;
      return {};
    }
  }

  void report(const std::vector<Contender>& all) const {
    fmt::print(
        "{} hosts of {} rank(s), links of {}; {} in {}, batch {} a rank, {} tokens; {} rounds of {} steps, medians; "
        "load {:.2f}\n\n",
        host_count, ranks_per_host, link, model, dtype, batch, seq, rounds, steps, load_average());
    fmt::print("{:<16} {:>9} {:>9} {:>22} {:>14} {:>14}\n", "", "ms", "best", "of stage 1's time", "a host sends",
               "a host holds");
    const auto base = std::find_if(all.begin(), all.end(), [](const Contender& c) { return c.name == "stage-1"; });
    for (const Contender& one : all) {
      if (!one.fits) {
        fmt::print("{:<16} does not fit into {:g} GiB a host\n", one.name, memory_gib);
        continue;
      }
      const std::string ratio = base == all.end() || !base->fits ? "" : ratio_text(one, *base);
      fmt::print("{:<16} {:>9.1f} {:>9.1f} {:>22} {:>10.1f} MiB {:>10.0f} MiB\n", one.name, median(one.median_ms),
                 *std::min_element(one.median_ms.begin(), one.median_ms.end()), ratio, one.sent_mib, one.held_mib);
    }
  }

  // Round by round, because the machine's speed drifts.
  static std::string ratio_text(const Contender& one, const Contender& base) {
    std::vector<double> ratios;
    for (std::size_t r = 0; r < one.median_ms.size(); ++r) ratios.push_back(one.median_ms[r] / base.median_ms[r]);
    const auto [least, most] = std::minmax_element(ratios.begin(), ratios.end());
    return fmt::format("{:.2f} ({:.2f} to {:.2f})", median(ratios), *least, *most);
  }

  int run() {
    std::optional<std::string> reason = NetworkHosts::why_not();
    if (!reason && memory_gib > 0) reason = MemoryLimit::why_not();
    if (!reason && std::any_of(systems.begin(), systems.end(), is_peer)) reason = why_no_peer();
    if (reason) {
      fmt::print(stderr, "lockstep-bench-stages: {}\n", *reason);
      return 1;
    }
    const NetworkHosts hosts(host_count, link);
    const std::string bin = std::filesystem::path(companion_path("")).parent_path().string();
    std::vector<Contender> all;
    for (const std::string& name : systems) all.push_back(contender(name));
    measure(all, hosts, bin);
    report(all);
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
