// `lockstep bench batch-size`: time per batch and throughput by batch size, wrapper and number of replicas, and the
// batch size at which throughput stops growing.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "bench/measure/benchmark.h"
#include "bench/measure/measurement.h"
#include "bench/tables/wrapper_turns.h"
#include "lockstep/base/error.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/models/registry.h"
#include "lockstep/seeing/chart/chart_sheet.h"
#include "tools/frame/chart_file.h"
#include "tools/frame/progress_line.h"

namespace lockstep {
namespace {

// One curve: a wrapper and a number of replicas.
struct BatchSizeCurve {
  WrapperContender contender;
  std::map<std::int64_t, std::vector<double>> times_ms;  // one per round, by batch size

  std::string name() const {
    return contender.wrapper == "one-device" ? contender.wrapper
                                             : fmt::format("{} x{}", contender.wrapper, contender.replicas);
  }
  double ms(std::int64_t batch) const { return median(times_ms.at(batch)); }
  double samples_per_s(std::int64_t batch) const { return 1000.0 * static_cast<double>(batch) / ms(batch); }

  // The smallest batch whose throughput no larger one exceeds by `gain`; nothing if that is the largest measured one.
  std::optional<std::int64_t> plateau(double gain) const {
    for (auto at = times_ms.begin(); at != times_ms.end(); ++at) {
      const bool is_beaten = std::any_of(std::next(at), times_ms.end(), [&](const auto& later) {
        return samples_per_s(later.first) > (1 + gain) * samples_per_s(at->first);
      });
      if (!is_beaten && std::next(at) != times_ms.end()) return at->first;
    }
    return {};
  }
};

class BenchBatchSize : public Benchmark {
 public:
  void add(CLI::App& app) override {
    std::vector<std::string> models;
    for (const auto& info : registered_models()) models.push_back(info.name);
    models.push_back("mlp-kdd");  // the full name for "mlp"
    app.add_option("--model", work_.model, "a shipped model")->capture_default_str()->check(CLI::IsMember(models));
    app.add_option("--batch", batches_, "batch sizes over all replicas, e.g. 1,2,4")
        ->delimiter(',')
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    app.add_option("--replicas", replicas_, "numbers of replicas, e.g. 1,2; default: 1, 2, 4… up to the cores")
        ->delimiter(',')
        ->check(CLI::Range(1, 64));
    app.add_option("--wrappers", wrappers_,
                   "what to compare with one device: data-parallel, parallel-loss, ddp-threads, ddp-processes")
        ->delimiter(',')
        ->capture_default_str()
        ->check(CLI::IsMember({"data-parallel", "parallel-loss", "ddp-threads", "ddp-processes"}));
    app.add_option("--seq", work_.sequence_length, "tokens of each text, for text models; default: the model's")
        ->check(CLI::PositiveNumber);
    app.add_option("--data", work_.data,
                   "folder of IDX files for image models, a file of NSL-KDD for mlp; without it batches are random");
    app.add_option("--threads", threads_,
                   "threads of each replica, for all numbers of replicas alike; default: cores / the largest number")
        ->check(CLI::PositiveNumber);
    app.add_option("--rounds", rounds_, "turns that each gets")->capture_default_str()->check(CLI::Range(1, 99));
    app.add_option("--steps", steps_, "steps to measure at most for a size in a turn, after 3 to warm up")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    app.add_option("--seconds", work_.seconds,
                   "seconds to measure a size in a turn: slow steps are fewer, but at least three")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    app.add_option(
           "--gain", gain_percent_,
           "throughput stops growing at the smallest batch that no larger one exceeds by more than this many percent")
        ->capture_default_str()
        ->check(CLI::NonNegativeNumber);
    app.add_flag("--json", json_, "print one JSON object");
    app.add_option("--plot", plot_, "write charts of time and throughput to this file, .svg or .png");
    show_examples(app, {"lockstep bench batch-size --model mlp --data KDDTrain+.txt --plot batch-size.svg",
                        "lockstep bench batch-size --model bert-tiny --seq 64 --batch 1,2,4,8,16,32",
                        "lockstep bench batch-size --model convnet --replicas 1,2 --wrappers ddp-threads --json"});
  }

  int run() override {
    check_arguments();
    std::vector<BatchSizeCurve> curves{{{"one-device", 1, threads_}, {}}};
    for (const int replicas : replicas_) {
      for (const std::string& wrapper : wrappers_) curves.push_back({{wrapper, replicas, threads_}, {}});
    }
    measure(curves);
    if (!plot_.empty()) write_chart(plot_, charts(curves));
    if (json_) {
      print_json(curves);
    } else {
      print_table(curves);
    }
    return 0;
  }

 private:
  void check_arguments() {
    if (!plot_.empty()) check_chart_path(plot_);
    if (std::isnan(gain_percent_)) throw UsageError("--gain is nan", "command line", "give a number, zero or more");
    if (std::isnan(work_.seconds)) throw UsageError("--seconds is nan", "command line", "give a number above zero");
    if (replicas_.empty()) {
      for (int n = 1; n <= available_cores(); n *= 2) replicas_.push_back(n);
    }
    if (threads_ == 0)
      threads_ = std::max(1, available_cores() / *std::max_element(replicas_.begin(), replicas_.end()));
    std::sort(batches_.begin(), batches_.end());
    batches_.erase(std::unique(batches_.begin(), batches_.end()), batches_.end());
    work_.batches = batches_;
    check_work(work_);
  }

  void measure(std::vector<BatchSizeCurve>& curves) const {
    const ProgressLine progress;
    for (int round = 0; round < rounds_; ++round) {
      // One device runs first, and determines the number of steps that fit into the time; the others make as many.
      std::map<std::int64_t, int> steps;
      for (const std::int64_t batch : batches_) steps[batch] = steps_;
      for (BatchSizeCurve& curve : curves) {
        progress.show(fmt::format("round {} of {}: {}", round + 1, rounds_, curve.name()));
        WrapperWork work = work_;
        work.batches.clear();
        for (const std::int64_t batch : batches_) {
          if (!fits(curve.contender, batch)) continue;
          work.batches.push_back(batch);
          work.steps.push_back(steps[batch]);
        }
        if (work.batches.empty()) continue;
        for (const WrapperResult& result : take_turn(curve.contender, work)) {
          curve.times_ms[result.batch].push_back(result.median_ms);
          if (curve.contender.wrapper == "one-device") steps[result.batch] = result.steps;
        }
      }
    }
  }

  std::string what() const {
    const std::string length = work_.sequence_length > 0 ? fmt::format(", {} tokens", work_.sequence_length) : "";
    const std::string data = std::filesystem::path(work_.data).filename().string();
    return fmt::format("{}{}, {}", work_.model, length, work_.data.empty() ? "random batches" : data);
  }

  std::string rule() const {
    return fmt::format("throughput stops growing at the smallest batch that no larger one exceeds by more than {:g} %",
                       gain_percent_);
  }

  std::string charts(const std::vector<BatchSizeCurve>& curves) const {
    Chart time{what() + ": time per batch", "samples per batch, over all replicas", "milliseconds", {}, true};
    Chart rate{"throughput", "samples per batch, over all replicas", "samples per second", {}, true};
    for (const BatchSizeCurve& curve : curves) {
      ChartLine times{curve.name(), {}};
      ChartLine rates{curve.name(), {}};
      const auto plateau = curve.plateau(gain_percent_ / 100);
      for (const auto& [batch, ignored] : curve.times_ms) {
        if (plateau == batch) rates.ringed = rates.points.size();
        times.points.emplace_back(batch, curve.ms(batch));
        rates.points.emplace_back(batch, curve.samples_per_s(batch));
      }
      time.lines.push_back(times);
      rate.lines.push_back(rates);
    }
    return svg_charts({time, rate}, "ring: " + rule());
  }

  void print_json(const std::vector<BatchSizeCurve>& curves) const {
    nlohmann::ordered_json out{{"model", work_.model},
                               {"seq", work_.sequence_length},
                               {"data", work_.data},
                               {"threads", threads_},
                               {"rounds", rounds_},
                               {"gain_percent", gain_percent_},
                               {"curves", nlohmann::ordered_json::array()}};
    for (const BatchSizeCurve& curve : curves) {
      nlohmann::ordered_json points = nlohmann::ordered_json::array();
      for (const auto& [batch, ignored] : curve.times_ms) {
        points.push_back(
            {{"batch", batch}, {"median_ms", curve.ms(batch)}, {"samples_per_s", curve.samples_per_s(batch)}});
      }
      const auto plateau = curve.plateau(gain_percent_ / 100);
      out["curves"].push_back({{"wrapper", curve.contender.wrapper},
                               {"replicas", curve.contender.replicas},
                               {"points", points},
                               {"stops_growing_at", plateau ? nlohmann::ordered_json(*plateau) : nullptr}});
    }
    fmt::print("{}\n", out.dump(2));
  }

  void print_table(const std::vector<BatchSizeCurve>& curves) const {
    fmt::print("{}; {} thread(s) a replica, {} round(s), medians; {} cores, load {:.2f}\n", what(), threads_, rounds_,
               available_cores(), load_average());
    const BatchSizeCurve& base = curves.front();
    for (const BatchSizeCurve& curve : curves) {
      const auto plateau = curve.plateau(gain_percent_ / 100);
      fmt::print("\n{}\n{:>8} {:>13} {:>11} {:>14}\n", curve.name(), "batch", "ms per batch", "samples/s",
                 "of one device");
      for (const auto& [batch, ignored] : curve.times_ms) {
        fmt::print("{:>8} {:>13.3f} {:>11.1f} {:>14.2f}{}\n", batch, curve.ms(batch), curve.samples_per_s(batch),
                   curve.samples_per_s(batch) / base.samples_per_s(batch),
                   plateau == batch ? "  throughput stops growing" : "");
      }
      if (curve.times_ms.empty()) fmt::print("  no size can be cut into {} equal parts\n", curve.contender.replicas);
      if (!plateau && curve.times_ms.size() > 1) fmt::print("  throughput grows up to the largest size measured\n");
    }
    fmt::print("\n{}\n", rule());
    if (*std::max_element(replicas_.begin(), replicas_.end()) > 1) {
      fmt::print("ranks of DDP take equal parts, so sizes that cannot be cut are left out there\n");
    }
  }

  WrapperWork work_{"mlp", "", 0, {}, {}, 0.3};
  std::vector<std::int64_t> batches_ = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
  std::vector<int> replicas_;
  std::vector<std::string> wrappers_ = {"data-parallel", "ddp-threads", "ddp-processes"};
  int threads_ = 0;
  int rounds_ = 3;
  int steps_ = 200;
  double gain_percent_ = 5;
  bool json_ = false;
  std::string plot_;
};

}  // namespace

std::unique_ptr<Benchmark> make_bench_batch_size() { return std::make_unique<BenchBatchSize>(); }

}  // namespace lockstep
