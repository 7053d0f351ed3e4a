// `lockstep bench start`: the time from the command to the first line of a LibTorch program, for Lockstep and torchrun
// in turn.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/measure/bench_folder.h"
#include "bench/measure/benchmark.h"
#include "bench/measure/measurement.h"
#include "lockstep/base/error.h"
#include "lockstep/base/processor/topology.h"
#include "tools/frame/companion.h"
#include "tools/frame/shell.h"

namespace lockstep {
namespace {

struct Start {
  std::string system;
  std::string command;
  std::vector<double> first_line_s;  // one per round
};

// Runs the command to its end. @return  seconds until its first byte  @throws Error  if it prints nothing
double seconds_to_first_line(const std::string& command) {
  const auto begin = std::chrono::steady_clock::now();
  FILE* pipe = ::popen((command + " 2>/dev/null").c_str(), "r");
  if (pipe == nullptr) throw Error("cannot start a shell", command, "check the limits on processes");
  const bool has_line = std::fgetc(pipe) != EOF;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  char rest[4096];
  while (std::fread(rest, 1, sizeof(rest), pipe) > 0) {
  }
  ::pclose(pipe);
  if (!has_line) throw Error("nothing was printed", command, "run this command by hand and read its messages");
  return seconds;
}

class BenchStart : public Benchmark {
 public:
  void add(CLI::App& app) override {
    app.add_option("--ranks,--nproc-per-node", ranks_, "number of ranks to start")
        ->capture_default_str()
        ->check(CLI::Range(1, 64));
    app.add_option("--rounds", rounds_, "turns that each gets")->capture_default_str()->check(CLI::Range(1, 99));
    app.add_option("--peer", peer_, "torchrun: a Python program that imports torch, under torchrun; default: none")
        ->check(CLI::IsMember({"torchrun"}));
    app.add_option("--python", python_, "interpreter that has torch")->capture_default_str();
    app.add_flag("--json", json_, "print a JSON array");
    show_examples(app, {"lockstep bench start", "lockstep bench start --ranks 2 --peer torchrun"});
  }

  int run() override {
    std::vector<Start> starts{{"lockstep run", ours(), {}}};
    if (!peer_.empty()) starts.push_back({"torchrun", theirs(), {}});
    for (const Start& start : starts) seconds_to_first_line(start.command);  // reads the files into memory
    for (int round = 0; round < rounds_; ++round) {
      for (Start& start : starts) start.first_line_s.push_back(seconds_to_first_line(start.command));
    }
    report(starts);
    return 0;
  }

 private:
  // The program's first line is the first line of its help; LibTorch is loaded before main.
  std::string ours() const {
    return fmt::format("{} run --nproc-per-node {} {} --help", companion_program("lockstep"), ranks_,
                       companion_program("lockstep-step-worker"));
  }

  // Debian's torchrun fails under Python 3.11 without redirection.
  std::string theirs() const {
    return fmt::format(
        "{}{} -m torch.distributed.run --standalone --redirects 2 --tee 2 --nproc_per_node {} "
        "{}",
        as_the_user_started(), python_, ranks_, shell_quoted(bench_folder() + "/peers/pytorch_start.py"));
  }

  void report(const std::vector<Start>& starts) const {
    if (json_) {
      nlohmann::ordered_json rows = nlohmann::ordered_json::array();
      for (const Start& start : starts) {
        rows.push_back({{"system", start.system},
                        {"ranks", ranks_},
                        {"median_s", median(start.first_line_s)},
                        {"min_s", *std::min_element(start.first_line_s.begin(), start.first_line_s.end())}});
      }
      fmt::print("{}\n", rows.dump(2));
      return;
    }
    fmt::print("{} rank(s), {} rounds in turn; {} cores, load {:.2f}\n\n", ranks_, rounds_, available_cores(),
               load_average());
    fmt::print("{:<14} {:>9} {:>9}\n", "to first line", "median s", "best s");
    for (const Start& start : starts) {
      fmt::print("{:<14} {:>9.2f} {:>9.2f}\n", start.system, median(start.first_line_s),
                 *std::min_element(start.first_line_s.begin(), start.first_line_s.end()));
    }
  }

  int ranks_ = 1;
  int rounds_ = 7;
  std::string peer_;
  std::string python_ = "/usr/bin/python3";
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Benchmark> make_bench_start() { return std::make_unique<BenchStart>(); }

}  // namespace lockstep
