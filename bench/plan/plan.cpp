// `lockstep plan`: predicts the time of a step on other hosts from measurements on one host.
#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "bench/measure/measurement.h"
#include "bench/plan/busy_host.h"
#include "bench/plan/plan_profile.h"
#include "bench/plan/stage_plan.h"
#include "lockstep/base/error.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/models/registry.h"
#include "lockstep/seeing/chart/chart_sheet.h"
#include "tools/frame/chart_file.h"
#include "tools/frame/subcommand.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

// Most hosts for which lockstep-check-plan compared forecasts with measurements.
constexpr int kCheckedHosts = 4;

// Bits per second and seconds: a network outside of these limits is a mistake.
constexpr double kSlowestLink = 1e3;
constexpr double kFastestLink = 1e15;
constexpr double kLongestLatency = 10;

// Threads of a rank, for each core of this host.
constexpr int kThreadsPerCore = 4;

const char* hook_name(Compression compression) {
  switch (compression) {
    case Compression::None:
      return "none";
    case Compression::Half:
      return "bf16";
    default:
      return "int8";
  }
}

struct PlanRow {
  ClusterShape shape;
  StepForecast plain;   // without options
  SendingPlan buckets;  // the best plan without compression
  StepForecast bucketed;
  SendingPlan best;
  StepForecast with_hook;
};

class Plan : public Subcommand {
 public:
  void add(CLI::App& app) override {
    std::vector<std::string> models;
    for (const ModelInfo& info : registered_models()) models.push_back(info.name);
    app.add_option("--model", question_.model, "a shipped model, measured with random weights and a random batch")
        ->required()
        ->check(CLI::IsMember(models));
    app.add_option("--batch", question_.batch, "samples of each rank in a step")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    app.add_option("--seq", question_.sequence_length, "tokens of each text; default: the model's")
        ->check(CLI::PositiveNumber);
    app.add_option("--hosts", hosts_, "numbers of hosts to forecast; default: 1,2,4 ... 1024")
        ->delimiter(',')
        ->check(CLI::Range(1, 1 << 20));
    app.add_option("--nproc-per-node", question_.ranks_per_host, "ranks of each host")
        ->capture_default_str()
        ->check(CLI::Range(1, 1024));
    app.add_option("--threads", question_.threads, "of each rank; default: cores / ranks of this host")
        ->check(CLI::PositiveNumber);
    app.add_option("--link", bits_per_s_, "rate of each host's link in each direction, such as 100mbit, 1gbit, 25gbit")
        ->transform(CLI::AsNumberWithUnit(std::map<std::string, double>{{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}},
                                          CLI::AsNumberWithUnit::UNIT_REQUIRED))
        ->default_str("1gbit")
        ->check(CLI::Range(kSlowestLink, kFastestLink));
    app.add_option("--latency", latency_s_, "latency from host to host, one way, such as 20us, 0.5ms")
        ->transform(CLI::AsNumberWithUnit(std::map<std::string, double>{{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}},
                                          CLI::AsNumberWithUnit::UNIT_REQUIRED))
        ->default_str("50us")
        ->check(CLI::Range(0.0, kLongestLatency));
    app.add_option("--memory", host_bytes_, "of each host, for a training: 16gb; default: this host's")
        ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))
        ->check(CLI::PositiveNumber);
    app.add_option("--steps", question_.steps, "measured steps")->capture_default_str()->check(CLI::Range(3, 100000));
    app.add_flag("--bf16", question_.bf16, "forward and backward compute in bf16, as with lockstep train --bf16 true");
    app.add_flag("--json", json_, "print one JSON object");
    app.add_option("--plot", plot_, "write a chart of samples per second against hosts to this file, .svg or .png");
    show_examples(app, {"lockstep plan --model bert-mini --batch 16 --seq 128 --link 1gbit",
                        "lockstep plan --model bert-base --batch 8 --hosts 1,8,64 --nproc-per-node 4 --link 25gbit "
                        "--latency 20us --plot plan.svg",
                        "lockstep plan --model mlp-wide --batch 64 --link 100mbit --json"});
  }

  int run(const CommandStreams& streams) override {
    if (!plot_.empty()) check_chart_path(plot_);
    check_sequence_length();
    check_threads();
    if (question_.threads == 0) question_.threads = std::max(1, available_cores() / question_.ranks_per_host);
    if (hosts_.empty()) {
      for (int hosts = 1; hosts <= 1024; hosts *= 2) hosts_.push_back(hosts);
    }
    std::sort(hosts_.begin(), hosts_.end());
    hosts_.erase(std::unique(hosts_.begin(), hosts_.end()), hosts_.end());
    warning_ = cores_warning(question_.ranks_per_host, question_.threads, available_cores(), load_average());
    if (!warning_.empty()) fmt::print(streams.err, "warning: {}\n", warning_);
    profile_ = measure_host(question_);
    measure_memory();
    std::vector<PlanRow> rows;
    for (const int hosts : hosts_) rows.push_back(row_of(hosts));
    if (!plot_.empty()) write_chart(plot_, chart(rows));
    json_ ? print_json(rows, streams.out) : print_table(rows, streams.out);
    return 0;
  }

 private:
  void check_sequence_length() const {
    if (question_.sequence_length == 0) return;
    const std::int64_t longest = max_positions_of(*make_model(question_.model));
    const std::string given = fmt::format("--seq {}", question_.sequence_length);
    if (longest == 0) throw UsageError(question_.model + " reads no texts", given, "leave --seq out");
    if (question_.sequence_length > longest) {
      throw UsageError(fmt::format("{} takes texts of at most {} tokens", question_.model, longest), given,
                       fmt::format("give a number from 1 to {}", longest));
    }
  }

  void check_threads() const {
    const int most = kThreadsPerCore * available_cores();
    if (question_.threads <= most) return;
    throw UsageError(fmt::format("this host has {} core(s)", available_cores()),
                     fmt::format("--threads {}", question_.threads), fmt::format("give a number from 1 to {}", most));
  }

  void measure_memory() {
    if (host_bytes_ == 0) host_bytes_ = static_cast<std::uint64_t>(memory_of_this_host());
    memory_ = measure_model_memory({question_.model, question_.batch, question_.sequence_length, question_.bf16});
    profile_.step.units = memory_.units;  // all are in the order of registration
    profile_.step.has_copy = memory_.has_copy;
  }
  StageQuestion stages() const { return {profile_, memory_, link(), static_cast<std::int64_t>(host_bytes_)}; }

  LinkSpeed link() const { return {bits_per_s_ / 8, latency_s_}; }

  PlanRow row_of(int hosts) const {
    PlanRow row;
    row.shape = {hosts, question_.ranks_per_host};
    row.plain = forecast_cluster(profile_, row.shape, link(), {});
    row.buckets = best_plan(profile_, row.shape, link(), Compression::None);
    row.bucketed = forecast_cluster(profile_, row.shape, link(), row.buckets);
    row.best = best_plan(profile_, row.shape, link());
    row.with_hook = forecast_cluster(profile_, row.shape, link(), row.best);
    return row;
  }

  double efficiency(const StepForecast& step) const { return profile_.host_step_s / step.step_s; }
  double samples_per_s(const PlanRow& row, double step_s) const {
    return static_cast<double>(question_.batch) * row.shape.ranks() / step_s;
  }
  static double mebibytes(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }
  std::int64_t gradient_bytes() const {
    std::int64_t bytes = 0;
    for (const GradientTime& gradient : profile_.step.gradients) bytes += gradient.bytes;
    return bytes;
  }

  // A note for rows that were compared with no measurement.
  static std::string extrapolation() {
    return fmt::format(
        "Measured here: the step, memory inside the host, and what Gloo costs its processor (over loopback). Assumed: "
        "hosts like this one, all links full at a time, the given rate and latency. Held against measurements, within "
        "15 %: a rank on each of 2 to {} hosts at 100 Mbit/s and 1 Gbit/s, and two on each of 2; int8 on 2 and 3 hosts "
        "(where four ranks shared two cores it took a quarter longer than forecast). More hosts, more ranks a host, "
        "other links: extrapolated, by the bytes and messages that the engines send; what a switch does to many "
        "senders at once, and the slowest of many hosts, are not in it.",
        kCheckedHosts);
  }

  Json json_of(const PlanRow& row, const StepForecast& step, const SendingPlan& plan) const {
    return {{"hook", hook_name(plan.compression)},
            {"bucket_cap_mb", mebibytes(plan.caps.other_bytes)},
            {"step_ms", step.step_s * 1e3},
            {"communication_ms", step.communication_s * 1e3},
            {"exposed_ms", step.exposed_s * 1e3},
            {"efficiency", efficiency(step)},
            {"samples_per_s", samples_per_s(row, step.step_s)}};
  }

  void print_json(const std::vector<PlanRow>& rows, std::ostream& to) const {
    const StepProfile& step = profile_.step;
    Json out{{"model", question_.model},
             {"batch", question_.batch},
             {"bf16", question_.bf16},
             {"nproc_per_node", question_.ranks_per_host},
             {"threads", question_.threads},
             {"link_bits_per_s", bits_per_s_},
             {"latency_s", latency_s_},
             {"measured",
              {{"forward_ms", step.forward_s * 1e3},
               {"backward_ms", step.backward_s * 1e3},
               {"update_ms", step.update_s * 1e3},
               {"host_step_ms", profile_.host_step_s * 1e3},
               {"gradient_bytes", gradient_bytes()},
               {"operation_us", profile_.engine.operation_s * 1e6},
               {"message_us", profile_.engine.message_cpu_s * 1e6},
               {"ns_per_byte", profile_.engine.byte_cpu_s * 1e9},
               {"local_ns_per_byte", profile_.engine.local_byte_s * 1e9},
               {"load", load_average()}}},
             {"memory_of_host", host_bytes_},
             {"rows", Json::array()},
             {"extrapolation", extrapolation()}};
    if (!warning_.empty()) out["warning"] = warning_;
    for (const PlanRow& row : rows) {
      out["rows"].push_back({{"hosts", row.shape.hosts},
                             {"ranks", row.shape.ranks()},
                             {"extrapolated", row.shape.hosts > kCheckedHosts},
                             {"default", json_of(row, row.plain, {})},
                             {"best_buckets", json_of(row, row.bucketed, row.buckets)},
                             {"best_hook", json_of(row, row.with_hook, row.best)}});
      out["rows"].back().update(json_of_stages(stages(), row.shape));
    }
    fmt::print(to, "{}\n", out.dump(2));
  }

  void print_table(const std::vector<PlanRow>& rows, std::ostream& to) const {
    const StepProfile& step = profile_.step;
    fmt::print(to,
               "{}{}, batch {} a rank, {} rank(s) a host with {} thread(s): forward {:.1f} ms, backward {:.1f}, update "
               "{:.1f}; {:.1f} MB of gradients; load {:.2f}\n",
               question_.model, question_.bf16 ? " in bf16" : "", question_.batch, question_.ranks_per_host,
               question_.threads, step.forward_s * 1e3, step.backward_s * 1e3, step.update_s * 1e3,
               static_cast<double>(gradient_bytes()) / 1e6, load_average());
    fmt::print(to,
               "links of {:.4g} Mbit/s and {:.4g} us; Gloo on this host: {:.0f} us an operation, {:.1f} us a message, "
               "{:.2f} ns a byte\n\n",
               bits_per_s_ / 1e6, latency_s_ * 1e6, profile_.engine.operation_s * 1e6,
               profile_.engine.message_cpu_s * 1e6, profile_.engine.byte_cpu_s * 1e9);
    fmt::print(to, "{:>6} {:>6} | {:^28} | {:^21} | {:^27}\n", "", "", "as it is", "best buckets, fp32",
               "best hook and buckets");
    fmt::print(to, "{:>6} {:>6} | {:>9} {:>8} {:>9} | {:>5} {:>9} {:>5} | {:>5} {:>5} {:>9} {:>5}\n", "hosts", "ranks",
               "step ms", "exposed", "samples/s", "MiB", "step ms", "eff.", "hook", "MiB", "step ms", "eff.");
    for (const PlanRow& row : rows) {
      fmt::print(to,
                 "{:>6} {:>6} | {:>9.1f} {:>8.1f} {:>9.0f} | {:>5.3g} {:>9.1f} {:>4.0f}% | {:>5} {:>5.3g} {:>9.1f} "
                 "{:>4.0f}%{}\n",
                 row.shape.hosts, row.shape.ranks(), row.plain.step_s * 1e3, row.plain.exposed_s * 1e3,
                 samples_per_s(row, row.plain.step_s), mebibytes(row.buckets.caps.other_bytes),
                 row.bucketed.step_s * 1e3, 100 * efficiency(row.bucketed), hook_name(row.best.compression),
                 mebibytes(row.best.caps.other_bytes), row.with_hook.step_s * 1e3, 100 * efficiency(row.with_hook),
                 row.shape.hosts > kCheckedHosts ? " *" : "");
    }
    std::vector<ClusterShape> shapes;
    for (const PlanRow& row : rows) shapes.push_back(row.shape);
    fmt::print(to, "\n{}", table_of_stages(stages(), shapes));
    fmt::print(to,
               "\nexposed: what communication adds to the step. eff.: samples per second of a rank, of one host's.\n");
    fmt::print(to, "* {}\n", extrapolation());
  }

  std::string chart(const std::vector<PlanRow>& rows) const {
    ChartLine ideal{"no communication", {}}, plain{"as it is", {}}, buckets{"best buckets", {}}, hook{"best hook", {}};
    for (const PlanRow& row : rows) {
      const double hosts = row.shape.hosts;
      ideal.points.emplace_back(hosts, samples_per_s(row, profile_.host_step_s));
      plain.points.emplace_back(hosts, samples_per_s(row, row.plain.step_s));
      buckets.points.emplace_back(hosts, samples_per_s(row, row.bucketed.step_s));
      hook.points.emplace_back(hosts, samples_per_s(row, row.with_hook.step_s));
    }
    Chart chart{fmt::format("{}, batch {} a rank, {} rank(s) a host, {:.4g} Mbit/s", question_.model, question_.batch,
                            question_.ranks_per_host, bits_per_s_ / 1e6),
                "hosts",
                "samples per second",
                {ideal, plain, buckets, hook},
                /*ticks_at_points=*/true};
    return svg_charts({chart}, fmt::format("forecast from one host; more than {} hosts: extrapolated", kCheckedHosts));
  }

  PlanQuestion question_{"", 8, 0, 1, 0, 20};
  std::vector<int> hosts_;
  double bits_per_s_ = 1e9;
  double latency_s_ = 50e-6;
  bool json_ = false;
  std::string plot_;
  std::uint64_t host_bytes_ = 0;
  std::string warning_;  // about what is measured
  HostProfile profile_;
  ModelMemory memory_;
};

}  // namespace

std::unique_ptr<Subcommand> make_plan() { return std::make_unique<Plan>(); }

}  // namespace lockstep
