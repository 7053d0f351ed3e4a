// lockstep-check-plan: compares forecasts of `lockstep plan` with steps measured on hosts that are network namespaces
// of this machine.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "bench/measure/measurement.h"
#include "bench/plan/cluster_forecast.h"
#include "bench/plan/plan_profile.h"
#include "lockstep/base/processor/topology.h"
#include "tests/support/host_job.h"
#include "tools/frame/companion.h"
#include "tools/hosts/network_hosts.h"

namespace lockstep {
namespace {

const std::map<std::string, double> kLinks{{"100mbit", 100e6 / 8}, {"1gbit", 1e9 / 8}, {"10gbit", 10e9 / 8}};

struct PlanCheck {
  std::vector<int> hosts{2};
  std::vector<std::string> links{"1gbit", "100mbit"};
  std::vector<std::string> models{"mlp-wide:64", "bert-mini:4"};
  std::vector<std::string> bucket_caps_mb{"0", "25"};
  std::vector<std::string> hooks{"none", "int8"};
  int ranks_per_host = 1;
  double latency_us = 0;
  int rounds = 3;
  int steps = 6;

  void add(CLI::App& app) {
    app.add_option("--hosts", hosts, "2 to 4")->delimiter(',')->capture_default_str()->check(CLI::Range(2, 4));
    app.add_option("--links", links, "100mbit, 1gbit, 10gbit")->delimiter(',')->capture_default_str();
    app.add_option("--models", models, "NAME:BATCH,...; texts have 64 tokens")->delimiter(',')->capture_default_str();
    app.add_option("--bucket-cap-mb", bucket_caps_mb, "0: the default")->delimiter(',')->capture_default_str();
    app.add_option("--hooks", hooks, "none, bf16, int8")->delimiter(',')->capture_default_str();
    app.add_option("--ranks-per-host", ranks_per_host, "1 to 4")->capture_default_str()->check(CLI::Range(1, 4));
    app.add_option("--latency-us", latency_us, "of these links: the namespaces' own is part of an operation's")
        ->capture_default_str();
    app.add_option("--rounds", rounds, "measurements of each case")->capture_default_str()->check(CLI::Range(1, 99));
    app.add_option("--steps", steps, "of a measurement")->capture_default_str()->check(CLI::Range(3, 999));
    app.footer("Example: lockstep-check-plan --hosts 2 --links 1gbit --models bert-mini:4");
  }

  static SendingPlan plan_of(const std::string& hook, const std::string& cap_mb) {
    SendingPlan plan;
    if (hook == "bf16") plan.compression = Compression::Half;
    if (hook == "int8") plan.compression = Compression::Int8;
    const auto cap = static_cast<std::int64_t>(std::stod(cap_mb) * (1 << 20));
    if (cap > 0) plan.caps = {cap, cap};
    return plan;
  }

  HostJobOptions job(bool apart) const {
    HostJobOptions options;
    options.ranks_per_host = ranks_per_host;
    options.apart = apart;
    return options;
  }

  // The engine's costs if this many ranks share this machine's cores.
  EngineCosts shared_costs(EngineCosts costs, int host_count) const {
    const double ranks_per_core =
        std::max(1.0, static_cast<double>(host_count * ranks_per_host) / static_cast<double>(available_cores()));
    for (double* cost : {&costs.operation_s, &costs.message_cpu_s, &costs.byte_cpu_s}) *cost *= ranks_per_core;
    return costs;
  }

  // The parts of the step, on hosts that share the machine as in the measurement, and send each other nothing.
  HostProfile profile_on(const NetworkHosts& places, const std::string& bin, const PlanQuestion& question,
                         const EngineCosts& engine) const {
    std::vector<std::string> command{companion_program("lockstep-plan-worker")};
    for (const std::string& word : step_arguments(question)) command.push_back(word);
    HostProfile profile =
        host_profile_of(run_on_hosts(places, bin, command, job(/*apart=*/true)), shared_costs(engine, places.count()));
    profile.step.cores_are_busy = true;
    return profile;
  }

  void check_model(const NetworkHosts& places, const std::string& link, const std::string& model,
                   const EngineCosts& engine, std::vector<double>& misses) const {
    const std::size_t colon = model.find(':');
    PlanQuestion question;
    question.model = model.substr(0, colon);
    question.batch = colon == std::string::npos ? 8 : std::stoi(model.substr(colon + 1));
    question.sequence_length = 64;
    const std::string bin = std::filesystem::path(companion_path("")).parent_path().string();
    for (const std::string& hook : hooks) {
      for (const std::string& cap : bucket_caps_mb) {
        std::vector<double> forecasts, measured;
        for (int round = 0; round < rounds; ++round) {
          const HostProfile profile = profile_on(places, bin, question, engine);
          forecasts.push_back(1e3 * forecast_cluster(profile, {places.count(), ranks_per_host},
                                                     {kLinks.at(link), latency_us * 1e-6}, plan_of(hook, cap))
                                        .step_s);
          PlanQuestion steps_of = question;
          steps_of.steps = steps;
          std::vector<std::string> command{
              companion_program("lockstep-overlap-worker"), "--bucket-cap-mb", cap, "--hook", hook, "--step-alone"};
          for (const std::string& word : step_arguments(steps_of)) command.push_back(word);
          measured.push_back(run_on_hosts(places, bin, command, job(/*apart=*/false))["step_ms"]);
        }
        const double forecast = median(forecasts), step = median(measured);
        misses.push_back(std::abs(forecast / step - 1));
        fmt::print("{:>5} {:>8} {:<14} {:>5} {:>7} {:>12.1f} {:>12.1f} {:>+8.1f} %\n", places.count(), link, model,
                   hook, cap == "0" ? "default" : cap, forecast, step, 100 * (forecast / step - 1));
        std::fflush(stdout);
      }
    }
  }

  int run() const {
    if (const auto reason = NetworkHosts::why_not()) {
      fmt::print(stderr, "lockstep-check-plan: {}\n", *reason);
      return 1;
    }
    const EngineCosts engine = measure_engine_costs();
    fmt::print("Gloo on this host: {:.0f} us an operation, {:.1f} us a message, {:.2f} ns a byte; load {:.2f}\n",
               engine.operation_s * 1e6, engine.message_cpu_s * 1e6, engine.byte_cpu_s * 1e9, load_average());
    fmt::print("ranks on each host: {}; {} cores for all of them; {} rounds, medians\n\n", ranks_per_host,
               available_cores(), rounds);
    fmt::print("{:>5} {:>8} {:<14} {:>5} {:>7} {:>12} {:>12} {:>10}\n", "hosts", "link", "model:batch", "hook", "MiB",
               "forecast ms", "measured ms", "difference");
    std::vector<double> misses;
    for (const int count : hosts) {
      for (const std::string& link : links) {
        const NetworkHosts places(count, link);
        for (const std::string& model : models) check_model(places, link, model, engine, misses);
      }
    }
    fmt::print("\nlargest difference {:.1f} %, median {:.1f} %; load {:.2f}\n",
               100 * *std::max_element(misses.begin(), misses.end()), 100 * median(misses), load_average());
    return 0;
  }
};

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  lockstep::PlanCheck check;
  CLI::App app("Forecasts of `lockstep plan` beside measurements on hosts of this machine.");
  check.add(app);
  CLI11_PARSE(app, argc, argv);
  try {
    return check.run();
  } catch (const std::exception& error) {
    fmt::print(stderr, "lockstep-check-plan: {}\n", error.what());
    return 1;
  }
}
