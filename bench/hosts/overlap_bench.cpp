// lockstep-bench-overlap: how much of the communication between two hosts a training step hides behind its backward,
// compared with Python's DDP over Gloo in the same network namespaces.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/measure/measurement.h"
#include "bench/plan/cluster_forecast.h"
#include "bench/plan/plan_profile.h"
#include "tests/support/host_job.h"
#include "tests/support/running_program.h"
#include "tools/frame/companion.h"
#include "tools/hosts/network_hosts.h"

namespace lockstep {
namespace {

struct OverlapBench {
  std::string link = "1gbit";
  int host_count = 2;
  std::string model = "bert-mini";
  int batch = 4;
  int seq = 64;
  int rounds = 5;
  int steps = 12;
  std::string bucket_cap_mb = "0";
  std::string python = "/usr/bin/python3";
  bool no_peer = false;

  void add(CLI::App& app) {
    app.add_option("--link", link, "rate of each host's link, as tc writes it")->capture_default_str();
    app.add_option("--hosts", host_count, "number of hosts, 2 to 4, with a rank on each")
        ->capture_default_str()
        ->check(CLI::Range(2, 4));
    app.add_option("--model", model, "mlp, convnet, bert-tiny, bert-mini, bert-small, bert-base, gpt2")
        ->capture_default_str();
    app.add_option("--batch", batch, "samples of each rank in a step")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    app.add_option("--seq", seq, "tokens of each text")->capture_default_str()->check(CLI::PositiveNumber);
    app.add_option("--rounds", rounds, "turns that each side gets")->capture_default_str()->check(CLI::Range(1, 99));
    app.add_option("--steps", steps, "steps in a turn")->capture_default_str()->check(CLI::Range(3, 9999));
    app.add_option("--bucket-cap-mb", bucket_cap_mb, "of ours; 0: the default")->capture_default_str();
    app.add_option("--python", python, "interpreter that has torch")->capture_default_str();
    app.add_flag("--no-peer", no_peer, "ours alone");
    app.footer("Example: lockstep-bench-overlap --link 1gbit --model bert-mini --batch 4 --seq 64");
  }

  std::vector<std::string> shape() const {
    return {"--model", model,
            "--batch", std::to_string(batch),
            "--seq",   std::to_string(seq),
            "--steps", std::to_string(steps)};
  }

  std::optional<std::string> why_no_peer() const {
    if (no_peer) return "not asked for";
    const ProgramEnd end = run_program({python, "-c", "import torch"});
    if (end.code == 0) return std::nullopt;
    return python + " has no torch (Debian's package is python3-torch)";
  }

  // The share that an ideal network could hide, which is never idle once it has a bucket, and takes no processor time.
  // Buckets leave when their gradients are ready, and the last one leaves when backward ends. Based on the profile's
  // own backward, which also fills the buckets.
  double attainable(const HostProfile& profile, const nlohmann::ordered_json& measured) const {
    const double exchange_s = measured["exchange_ms"].get<double>() / 1e3;
    const double sent = measured["bytes"].get<double>() * 2 * (host_count - 1) / host_count;
    constexpr double kFrames = 1514.0 / 1448.0;
    const auto cap = static_cast<std::int64_t>(std::stod(bucket_cap_mb) * (1 << 20));
    SendingPlan plan;
    if (cap > 0) plan.caps = {cap, cap};
    const StepForecast step = forecast_cluster(profile, {host_count, 1}, {sent * kFrames / exchange_s, 0}, plan);
    return (exchange_s - (step.step_s - profile.host_step_s)) / std::min(exchange_s, profile.step.backward_s);
  }

  HostProfile profile_on(const NetworkHosts& hosts, const std::string& bin) const {
    std::vector<std::string> command{companion_program("lockstep-plan-worker")};
    for (const std::string& word : shape()) command.push_back(word);
    if (model == "mlp") command[2] = "mlp-wide";
    HostJobOptions apart;
    apart.apart = true;
    HostProfile profile = host_profile_of(run_on_hosts(hosts, bin, command, apart), {});
    profile.step.cores_are_busy = false;
    return profile;
  }

  int run() const {
    if (const auto reason = NetworkHosts::why_not()) {
      fmt::print(stderr, "lockstep-bench-overlap: {}\n", *reason);
      return 1;
    }
    const auto missing = why_no_peer();
    const NetworkHosts hosts(host_count, link);
    const std::string bin = std::filesystem::path(companion_path("")).parent_path().string();
    std::vector<std::string> ours{companion_program("lockstep-overlap-worker"), "--bucket-cap-mb", bucket_cap_mb};
    std::vector<std::string> theirs{python, std::string(LOCKSTEP_BENCH_DIR) + "/peers/pytorch_step.py"};
    for (auto* command : {&ours, &theirs}) {
      for (const std::string& word : shape()) command->push_back(word);
    }
    HostJobOptions peer_options;
    peer_options.variables["GLOO_SOCKET_IFNAME"] = "eth0";
    std::map<std::string, std::vector<double>> ms;
    nlohmann::ordered_json last;
    for (int round = 0; round < rounds; ++round) {
      last = run_on_hosts(hosts, bin, ours);
      for (const char* part : {"step_ms", "alone_ms", "backward_ms", "exchange_ms"}) ms[part].push_back(last[part]);
      if (!missing) {
        ms["pytorch"].push_back(run_on_hosts(hosts, bin, theirs, peer_options)["median_ms"]);
        ms["ratio"].push_back(ms["pytorch"].back() / ms["step_ms"].back());
      }
      const double communication = ms["exchange_ms"].back();
      const double hideable = std::min(communication, ms["backward_ms"].back());
      ms["hidden"].push_back((ms["alone_ms"].back() + communication - ms["step_ms"].back()) / hideable);
      ms["attainable"].push_back(attainable(profile_on(hosts, bin), last));
      ms["of attainable"].push_back(ms["hidden"].back() / ms["attainable"].back());
    }
    fmt::print(
        "{} hosts, a rank with one thread on each, links of {}; {}, batch {} a rank, {} tokens; {:.1f} MB in {} "
        "buckets; {} rounds of {} steps, medians; load {:.2f}\n",
        host_count, link, model, batch, seq, last["bytes"].get<double>() / 1e6, last["buckets"].get<int>(), rounds,
        steps, load_average());
    const auto line = [&](const char* name, const char* part) {
      fmt::print("{:<34} {:>9.1f} ms\n", name, median(ms[part]));
    };
    line("step", "step_ms");
    line("compute alone (no_sync)", "alone_ms");
    line("  of it backward", "backward_ms");
    line("communication alone", "exchange_ms");
    const auto percent = [&](const char* name, const char* part) {
      fmt::print("{:<34} {:>9.0f} %   ({:.0f} to {:.0f})\n", name, 100 * median(ms[part]),
                 100 * *std::min_element(ms[part].begin(), ms[part].end()),
                 100 * *std::max_element(ms[part].begin(), ms[part].end()));
    };
    percent("hidden, of the smaller of both", "hidden");
    percent("could be, as buckets get ready", "attainable");
    percent("hidden, of what could be", "of attainable");
    if (missing) {
      fmt::print("PyTorch's DDP: left out, {}\n", *missing);
      return 0;
    }
    line("PyTorch's DDP over Gloo", "pytorch");
    fmt::print("{:<34} {:>9.2f}     ({:.2f} to {:.2f})\n", "times PyTorch's speed", median(ms["ratio"]),
               *std::min_element(ms["ratio"].begin(), ms["ratio"].end()),
               *std::max_element(ms["ratio"].begin(), ms["ratio"].end()));
    return 0;
  }
};

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  lockstep::OverlapBench bench;
  CLI::App app("How much of the communication between hosts a training step hides, beside PyTorch's DDP.");
  bench.add(app);
  CLI11_PARSE(app, argc, argv);
  try {
    return bench.run();
  } catch (const std::exception& error) {
    fmt::print(stderr, "lockstep-bench-overlap: {}\n", error.what());
    return 1;
  }
}
