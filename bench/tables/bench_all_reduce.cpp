// `lockstep bench all-reduce`: our engines, the peers and the bound take turns, each in its own processes.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "bench/measure/benchmark.h"
#include "bench/measure/measurement.h"
#include "bench/tables/bench_contender.h"
#include "lockstep/base/error.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/seeing/chart/chart_sheet.h"
#include "tools/frame/chart_file.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

struct Row {
  std::string engine;
  int ranks;
  std::size_t bytes;
  double median_us;
  double min_us;
  double bound_us;

  // Bytes of the tensor per second, and the bytes that a ring would have to move for it: the figures of nccl-tests.
  double algbw_gb_s() const { return static_cast<double>(bytes) / median_us / 1e3; }
  double busbw_gb_s() const { return algbw_gb_s() * 2.0 * (ranks - 1) / ranks; }
  double of_bound() const { return bound_us / median_us; }
};

class BenchAllReduce : public Benchmark {
 public:
  void add(CLI::App& app) override {
    app.add_option("--nproc-per-node,--ranks", ranks_, "number of ranks, or several numbers, e.g. 2,4")
        ->delimiter(',')
        ->check(CLI::Range(2, 64))
        ->capture_default_str();
    app.add_option("--sizes", sizes_, "sizes of the tensor in bytes, multiples of 4")
        ->delimiter(',')
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    app.add_option(
           "--engines", engines_,
           "shm (tensors from allocate), shm-any (any tensor), thread, tcp, gloo-engine (ours over Gloo's transport); "
           "the peers gloo (Gloo's own ring) and mpi (Open MPI). Default: all that are installed")
        ->delimiter(',')
        ->check(CLI::IsMember(BenchContender::known()));
    app.add_option("--rounds", rounds_, "turns that each gets at each size")
        ->check(CLI::Range(1, 999))
        ->capture_default_str();
    app.add_flag("--json", json_, "print a JSON array");
    app.add_option("--plot", plot_, "write a chart of time against size to this file, .svg or .png");
    show_examples(app, {"lockstep bench all-reduce --nproc-per-node 2 --sizes 4,65536,26214400 --engines shm,gloo,mpi",
                        "lockstep bench all-reduce --ranks 2,4 --engines shm --json",
                        "lockstep bench all-reduce --engines shm,gloo --plot all-reduce.svg"});
  }

  int run() override {
    if (!plot_.empty()) check_chart_path(plot_);
    check_arguments();
    const double load_before = load_average();
    std::vector<Row> rows;
    for (const int ranks : ranks_) measure(ranks, rows);
    if (!plot_.empty()) write_chart(plot_, chart(rows));
    if (json_) {
      print_json(rows);
    } else {
      print_table(rows, load_before);
    }
    return 0;
  }

 private:
  void check_arguments() {
    for (const std::size_t bytes : sizes_) {
      if (bytes >= 4 && bytes % 4 == 0 && bytes <= (std::size_t{1} << 31)) continue;
      throw UsageError(fmt::format("--sizes has {}, which is not a multiple of 4 from 4 to 2 GiB", bytes),
                       "bench all-reduce", "give bytes of fp32 tensors");
    }
    if (engines_.empty()) {
      for (const std::string& engine : BenchContender::known()) {
        if (BenchContender::missing(engine).empty()) engines_.push_back(engine);
      }
    }
    for (const std::string& engine : engines_) {
      const std::string why = BenchContender::missing(engine);
      if (!why.empty()) {
        throw Error(fmt::format("cannot measure {}: {}", engine, why), "bench all-reduce",
                    "install it and build again, or leave it out of --engines");
      }
    }
  }

  void measure(int ranks, std::vector<Row>& rows) {
    const std::size_t largest = *std::max_element(sizes_.begin(), sizes_.end());
    std::vector<std::unique_ptr<BenchContender>> contenders;
    contenders.push_back(std::make_unique<BenchContender>("bound", ranks, largest));
    for (const std::string& engine : engines_) {
      contenders.push_back(std::make_unique<BenchContender>(engine, ranks, largest));
    }
    std::map<std::pair<std::string, std::size_t>, std::vector<double>> times_us;
    for (int round = 0; round < rounds_; ++round) {
      if (!json_) fmt::print(stderr, "{} ranks, round {} of {}\n", ranks, round + 1, rounds_);
      for (const std::size_t bytes : sizes_) {
        for (const auto& contender : contenders) {
          times_us[{contender->engine(), bytes}].push_back(contender->take_turn(bytes));
        }
      }
    }
    for (const std::size_t bytes : sizes_) {
      const double bound_us = median(times_us[{"bound", bytes}]);
      for (const std::string& engine : engines_) {
        const std::vector<double>& times = times_us[{engine, bytes}];
        rows.push_back({engine, ranks, bytes, median(times), *std::min_element(times.begin(), times.end()), bound_us});
      }
    }
  }

  void print_json(const std::vector<Row>& rows) const {
    Json all = Json::array();
    for (const Row& row : rows) {
      all.push_back({{"engine", row.engine},
                     {"ranks", row.ranks},
                     {"bytes", row.bytes},
                     {"median_us", row.median_us},
                     {"min_us", row.min_us},
                     {"bound_us", row.bound_us},
                     {"of_bound", row.of_bound()}});
    }
    fmt::print("{}\n", all.dump(2));
  }

  void print_table(const std::vector<Row>& rows, double load_before) const {
    fmt::print(
        "all-reduce of fp32, in place, cold buffers; {} rounds in turn; {} cores, load {:.2f} before, {:.2f} after\n",
        rounds_, available_cores(), load_before, load_average());
    fmt::print(
        "bound: each rank doubles as many bytes of its own, by the fastest of several loops, and passes a bare "
        "barrier; times: medians of rounds\n\n");
    fmt::print("{:>5} {:>10} {:<12} {:>11} {:>11} {:>9} {:>9} {:>11} {:>8}\n", "ranks", "bytes", "engine", "median us",
               "min us", "algbw", "busbw", "bound us", "of bound");
    for (const Row& row : rows) {
      fmt::print("{:>5} {:>10} {:<12} {:>11.2f} {:>11.2f} {:>9.2f} {:>9.2f} {:>11.2f} {:>7.0f}%\n", row.ranks,
                 row.bytes, row.engine, row.median_us, row.min_us, row.algbw_gb_s(), row.busbw_gb_s(), row.bound_us,
                 100 * row.of_bound());
    }
    fmt::print("\nalgbw, busbw in GB/s\n");
  }

  static std::string chart(const std::vector<Row>& rows) {
    std::vector<ChartLine> lines;
    const auto add = [&lines](const std::string& name, const Row& row, double us) {
      auto line = std::find_if(lines.begin(), lines.end(), [&](const ChartLine& l) { return l.name == name; });
      if (line == lines.end()) line = lines.insert(lines.end(), {name, {}});
      line->points.emplace_back(static_cast<double>(row.bytes), us);
    };
    for (const Row& row : rows) {
      add(fmt::format("{}, {} ranks", row.engine, row.ranks), row, row.median_us);
    }
    for (const Row& row : rows) {
      if (row.engine == rows.front().engine) add(fmt::format("bound, {} ranks", row.ranks), row, row.bound_us);
    }
    for (ChartLine& line : lines) std::sort(line.points.begin(), line.points.end());
    return svg_chart("All-reduce of fp32, cold buffers, medians", "bytes", "microseconds", lines);
  }

  std::vector<int> ranks_ = {2};
  std::vector<std::size_t> sizes_ = {4, 4096, 65536, 1048576, 26214400};
  std::vector<std::string> engines_;
  int rounds_ = 7;
  bool json_ = false;
  std::string plot_;
};

}  // namespace

std::unique_ptr<Benchmark> make_bench_all_reduce() { return std::make_unique<BenchAllReduce>(); }

}  // namespace lockstep
