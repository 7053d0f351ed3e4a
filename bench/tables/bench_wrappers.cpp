// `lockstep bench wrappers`: one device, DataParallel, parallel loss, and DDP with threads and with processes, on equal
// work: time, memory, and the lines that a program needs.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/measure/benchmark.h"
#include "bench/measure/measurement.h"
#include "bench/tables/wrapper_turns.h"
#include "lockstep/base/error.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/models/registry.h"
#include "tools/frame/progress_line.h"

namespace lockstep {
namespace {

struct WrapperRow {
  WrapperContender contender;
  std::vector<double> times_ms;  // one per round
  double memory_mib = 0;         // maximum over the rounds
};

class BenchWrappers : public Benchmark {
 public:
  void add(CLI::App& app) override {
    std::vector<std::string> models;
    for (const auto& info : registered_models()) models.push_back(info.name);
    app.add_option("--model", work_.model, "a shipped model")->capture_default_str()->check(CLI::IsMember(models));
    app.add_option("--batch", batch_, "samples of a step over all replicas")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    app.add_option("--seq", work_.sequence_length, "tokens of each text, for text models; default: the model's")
        ->check(CLI::PositiveNumber);
    app.add_option("--data", work_.data,
                   "folder of IDX files for image models, a file of NSL-KDD for mlp; without it batches are random");
    app.add_option("--replicas", replicas_, "replicas of every wrapper; default: one for each core, but 8 at most")
        ->check(CLI::Range(2, 64));
    app.add_option("--rounds", rounds_, "turns that each gets")->capture_default_str()->check(CLI::Range(1, 99));
    app.add_option("--steps", steps_, "steps to measure in a turn, after 3 to warm up")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    app.add_flag("--json", json_, "print a JSON array");
    show_examples(app, {"lockstep bench wrappers --model bert-mini --batch 32 --seq 128",
                        "lockstep bench wrappers --model mlp --data KDDTrain+.txt --batch 1024 --steps 200",
                        "lockstep bench wrappers --model convnet --batch 100 --replicas 4 --json"});
  }

  int run() override {
    if (replicas_ == 0) replicas_ = std::clamp(available_cores(), 2, 8);
    if (batch_ % replicas_ != 0) {
      throw UsageError(fmt::format("a batch of {} cannot be cut into {} equal parts", batch_, replicas_),
                       "--batch and --replicas", "ranks of DDP take equal parts: give a multiple");
    }
    work_.batches = {batch_};
    work_.steps = {steps_};
    check_work(work_);
    std::vector<WrapperRow> rows = contenders();
    measure(rows);
    if (json_) {
      print_json(rows);
    } else {
      print_table(rows);
    }
    return 0;
  }

 private:
  // One device with one replica's threads, and with the threads of all replicas together; then the wrappers.
  std::vector<WrapperRow> contenders() const {
    const int threads = std::max(1, available_cores() / replicas_);
    std::vector<WrapperRow> rows{{{"one-device", 1, threads}, {}, 0}};
    for (const std::string& wrapper : known_wrappers()) {
      if (wrapper == "one-device") {
        rows.push_back({{wrapper, 1, threads * replicas_}, {}, 0});
      } else {
        rows.push_back({{wrapper, replicas_, threads}, {}, 0});
      }
    }
    return rows;
  }

  void measure(std::vector<WrapperRow>& rows) const {
    const ProgressLine progress;
    for (int round = 0; round < rounds_; ++round) {
      for (WrapperRow& row : rows) {
        progress.show(fmt::format("round {} of {}: {}, {} replica(s) of {} thread(s)", round + 1, rounds_,
                                  row.contender.wrapper, row.contender.replicas, row.contender.threads));
        const WrapperResult result = take_turn(row.contender, work_).front();
        row.times_ms.push_back(result.median_ms);
        row.memory_mib = std::max(row.memory_mib, result.memory_mib);
      }
    }
  }

  double samples_per_s(const WrapperRow& row) const {
    return 1000.0 * static_cast<double>(batch_) / median(row.times_ms);
  }

  // The median over rounds of the base row's time divided by this row's, because the machine's speed drifts.
  static double speedup(const WrapperRow& row, const WrapperRow& base) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < row.times_ms.size(); ++i) ratios.push_back(base.times_ms[i] / row.times_ms[i]);
    return median(ratios);
  }

  void print_json(const std::vector<WrapperRow>& rows) const {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const WrapperRow& row : rows) {
      const SourceLines lines = source_lines(row.contender.wrapper);
      all.push_back({{"wrapper", row.contender.wrapper},
                     {"model", work_.model},
                     {"batch", batch_},
                     {"replicas", row.contender.replicas},
                     {"threads", row.contender.threads},
                     {"median_ms", median(row.times_ms)},
                     {"samples_per_s", samples_per_s(row)},
                     {"speedup", speedup(row, rows.front())},
                     {"memory_mib", row.memory_mib},
                     {"lines", lines.all},
                     {"lines_changed", lines.changed}});
    }
    fmt::print("{}\n", all.dump(2));
  }

  void print_table(const std::vector<WrapperRow>& rows) const {
    fmt::print("{}, batch {} over all replicas, {} round(s) of {} steps, medians; {} cores, load {:.2f}\n\n",
               work_.model, batch_, rounds_, steps_, available_cores(), load_average());
    fmt::print("{:<14} {:>8} {:>7} {:>11} {:>10} {:>8} {:>10} {:>6} {:>8}\n", "wrapper", "replicas", "threads",
               "ms per step", "samples/s", "speed-up", "MiB in all", "lines", "changed");
    for (const WrapperRow& row : rows) {
      const SourceLines lines = source_lines(row.contender.wrapper);
      fmt::print("{:<14} {:>8} {:>7} {:>11.3f} {:>10.1f} {:>8.2f} {:>10.0f} {:>6} {:>8}\n", row.contender.wrapper,
                 row.contender.replicas, row.contender.threads, median(row.times_ms), samples_per_s(row),
                 speedup(row, rows.front()), row.memory_mib, lines.all > 0 ? std::to_string(lines.all) : "-",
                 lines.all > 0 ? std::to_string(lines.changed) : "-");
    }
    fmt::print(
        "\nspeed-up: against the first row, round by round. MiB in all: most that was resident, of all processes;\n"
        "what they share is counted once. lines: of the program that was measured, bench/wrappers/*.cpp, without\n"
        "comments; changed: those that are not in one_device.cpp.\n");
  }

  WrapperWork work_{"bert-mini", "", 0, {}, {}, 0};
  std::int64_t batch_ = 32;
  int replicas_ = 0;
  int rounds_ = 3;
  int steps_ = 5;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Benchmark> make_bench_wrappers() { return std::make_unique<BenchWrappers>(); }

}  // namespace lockstep
