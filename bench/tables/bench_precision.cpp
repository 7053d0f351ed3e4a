// `lockstep bench precision`: the loss of a training in bf16 beside that in fp32, over several seeds.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/measure/benchmark.h"
#include "bench/measure/worker_program.h"
#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/seeing/chart/chart_sheet.h"
#include "lockstep/seeing/report_data.h"
#include "tools/frame/chart_file.h"
#include "tools/frame/companion.h"
#include "tools/frame/progress_line.h"
#include "tools/frame/scratch_folder.h"
#include "tools/frame/shell.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;
using Losses = std::vector<std::pair<double, double>>;  // step, mean loss since the entry before

/// The losses of all seeds at one step.
struct LossBand {
  double step = 0;
  double mean = 0;
  double least = 0;
  double most = 0;
};

std::vector<LossBand> bands_of(const std::vector<Losses>& runs) {
  std::vector<LossBand> bands;
  for (std::size_t i = 0; i < runs.front().size(); ++i) {
    LossBand band{runs.front()[i].first, 0, INFINITY, -INFINITY};
    for (const Losses& run : runs) {
      const double loss = run.at(i).second;
      band.mean += loss / static_cast<double>(runs.size());
      band.least = std::min(band.least, loss);
      band.most = std::max(band.most, loss);
    }
    bands.push_back(band);
  }
  return bands;
}

/// The largest difference between the losses of two trainings of the same seed.
double largest_difference(const std::vector<Losses>& one, const std::vector<Losses>& other) {
  double largest = 0;
  for (std::size_t seed = 0; seed < one.size(); ++seed) {
    for (std::size_t i = 0; i < one[seed].size(); ++i) {
      largest = std::max(largest, std::abs(one[seed][i].second - other[seed].at(i).second));
    }
  }
  return largest;
}

ChartLine line_of(const std::string& name, const std::vector<LossBand>& bands, double LossBand::*which) {
  ChartLine line{name, {}};
  for (const LossBand& band : bands) line.points.emplace_back(band.step, band.*which);
  return line;
}

class BenchPrecision : public Benchmark {
 public:
  void add(CLI::App& app) override {
    app.add_option("--seeds", seeds_, "trainings in each type: seeds 1, 2, ...")
        ->capture_default_str()
        ->check(CLI::Range(2, 99));
    app.add_option("--logging-steps", logging_steps_, "updates whose mean loss is one point of the curve")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    app.add_option("--ranks,--nproc-per-node", ranks_, "ranks")->capture_default_str()->check(CLI::Range(1, 64));
    app.add_flag("--json", json_, "print JSON");
    app.add_option("--plot", plot_, "write the curves to this file, .svg or .png");
    app.add_option("arguments", arguments_, "after --: those of `lockstep train`, without seed, type and output")
        ->required();
    show_examples(app, {"lockstep bench precision --plot bands.svg -- --task text-classification --model bert-tiny "
                        "--tokenizer data/reviews-vocab --train-file data/reviews.csv --label-column division "
                        "--max-length 64 --max-steps 200"});
  }

  int run() override {
    if (!plot_.empty()) check_chart_path(plot_);
    const ScratchFolder scratch("lockstep-bench-precision");
    const ProgressLine progress;
    for (int seed = 1; seed <= seeds_; ++seed) {
      for (const bool bf16 : {false, true}) {
        progress.show(fmt::format("seed {} of {}, {}", seed, seeds_, bf16 ? "bf16" : "fp32"));
        runs_[bf16].push_back(train(seed, bf16, scratch));
      }
    }
    const std::vector<LossBand> fp32 = bands_of(runs_[0]), bf16 = bands_of(runs_[1]);
    if (!plot_.empty()) write_chart(plot_, chart(fp32, bf16));
    report(fp32, bf16);
    return 0;
  }

 private:
  Losses train(int seed, bool bf16, const ScratchFolder& scratch) const {
    const std::string folder = scratch / "out";
    const std::string log = scratch / "log";
    std::filesystem::remove_all(folder);
    std::string line = run_command(ranks_, std::max(1, available_cores() / ranks_)) +
                       shell_quoted(companion_program("lockstep")) + " train";
    for (const std::string& argument : arguments_) line += " " + shell_quoted(argument);
    line += fmt::format(" --seed {} --bf16 {} --logging-steps {} --output-dir {} --save-strategy no", seed, bf16,
                        logging_steps_, shell_quoted(folder));
    if (run_shell(line + " 2>" + shell_quoted(log)).first != 0) {
      throw Error("the training failed; it wrote:\n" + read_file(log), line, "run this command by hand");
    }
    const auto logs = read_report_data(folder).logs;
    const auto loss = logs.find("loss");
    if (loss == logs.end() || loss->second.empty()) {
      throw Error("the training logged no loss", line, "train for more steps, or log more often: --logging-steps");
    }
    return loss->second;
  }

  std::string chart(const std::vector<LossBand>& fp32, const std::vector<LossBand>& bf16) const {
    return svg_charts(
        {{fmt::format("{} seeds each", seeds_),
          "step",
          "loss",
          {line_of("fp32, mean", fp32, &LossBand::mean), line_of("bf16, mean", bf16, &LossBand::mean),
           line_of("fp32, least", fp32, &LossBand::least), line_of("fp32, most", fp32, &LossBand::most)}}});
  }

  void report(const std::vector<LossBand>& fp32, const std::vector<LossBand>& bf16) const {
    Json rows = Json::array();
    int inside = 0;
    for (std::size_t i = 0; i < fp32.size(); ++i) {
      const bool is_inside = bf16[i].mean >= fp32[i].least && bf16[i].mean <= fp32[i].most;
      inside += is_inside;
      rows.push_back({{"step", fp32[i].step},
                      {"fp32", {{"mean", fp32[i].mean}, {"least", fp32[i].least}, {"most", fp32[i].most}}},
                      {"bf16", {{"mean", bf16[i].mean}, {"least", bf16[i].least}, {"most", bf16[i].most}}},
                      {"inside", is_inside}});
    }
    const double difference = largest_difference(runs_[0], runs_[1]);
    if (json_) {
      fmt::print("{}\n", Json{{"points", rows}, {"largest_difference", difference}}.dump(2));
      return;
    }
    fmt::print("{} seeds each; each loss is a mean over {} updates\n\n", seeds_, logging_steps_);
    fmt::print("{:>8} {:>10} {:>21} {:>10} {:>21}\n", "step", "fp32", "least to most", "bf16", "least to most");
    for (std::size_t i = 0; i < fp32.size(); ++i) {
      fmt::print("{:>8} {:>10.4f} {:>21} {:>10.4f} {:>21}\n", fp32[i].step, fp32[i].mean,
                 fmt::format("{:.4f} to {:.4f}", fp32[i].least, fp32[i].most), bf16[i].mean,
                 fmt::format("{:.4f} to {:.4f}", bf16[i].least, bf16[i].most));
    }
    fmt::print(
        "\nThe mean of bf16 lies in fp32's band at {} of {} points. Largest difference between the types with "
        "the same seed: {:.4f}.\n",
        inside, fp32.size(), difference);
  }

  int seeds_ = 5;
  int logging_steps_ = 20;
  int ranks_ = 1;
  bool json_ = false;
  std::string plot_;
  std::vector<std::string> arguments_;
  std::vector<Losses> runs_[2];  // fp32, bf16; one for each seed
};

}  // namespace

std::unique_ptr<Benchmark> make_bench_precision() { return std::make_unique<BenchPrecision>(); }

}  // namespace lockstep
