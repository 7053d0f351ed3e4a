// `lockstep bench checkpoint`: how long a save delays training, and how long it writes.
#include <ATen/Parallel.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "bench/measure/benchmark.h"
#include "bench/measure/measurement.h"
#include "lockstep/base/files/file_system.h"
#include "lockstep/checkpoint/checkpoint_writer.h"
#include "tools/frame/scratch_folder.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

double seconds_of(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct CheckpointTimes {
  std::vector<double> stall_s;      // the caller's wait
  std::vector<double> write_s;      // until the folder was published
  std::vector<double> step_s;       // a step of work without a write in progress
  std::vector<double> busy_step_s;  // the same work during a write
};

class BenchCheckpoint : public Benchmark {
 public:
  void add(CLI::App& app) override {
    app.add_option("--megabytes", megabytes_, "size of a checkpoint; a third is weights, the rest Adam's state")
        ->capture_default_str()
        ->check(CLI::Range(3, 100000));
    app.add_option("--rounds", rounds_, "number of saves, after one that allocates")
        ->capture_default_str()
        ->check(CLI::Range(1, 999));
    app.add_option("--output", output_, "folder that checkpoints go to and are removed from; default: a temporary one");
    app.add_flag("--json", json_, "print one JSON object");
    show_examples(app, {"lockstep bench checkpoint", "lockstep bench checkpoint --megabytes 1300 --output /scratch"});
  }

  int run() override {
    const ScratchFolder scratch("lockstep-bench");
    const std::string folder = output_.empty() ? scratch.path() : output_ + "/lockstep-bench-checkpoint";
    const CheckpointContent content = make_content();
    const CheckpointTimes background = measure(folder, content, true);
    const CheckpointTimes foreground = measure(folder, content, false);
    real_file_system().remove_tree(folder);
    print(background, foreground, plain_copy_s());
    return 0;
  }

 private:
  // Layers of 4 MB, as in a real model.
  CheckpointContent make_content() const {
    CheckpointContent content;
    for (int i = 0; i < std::max(1, megabytes_ / 12); ++i) {
      const std::string name = fmt::format("layer.{}.weight", i);
      content.weights.emplace_back(name, at::ones({1000, 1000}));
      ParameterState& state = content.optimizer.state[name];
      state.sizes = {1000, 1000};
      state.end = 1'000'000;
      for (const char* kind : {"exp_avg", "exp_avg_sq"}) state.tensors[kind] = at::ones({1000, 1000});
    }
    content.optimizer.groups = {{{"lr", 1e-3}}};
    return content;
  }

  CheckpointTimes measure(const std::string& folder, CheckpointContent content, bool in_background) const {
    CheckpointWriterOptions options;
    options.output_dir = folder;
    options.save_total_limit = 1;
    options.background = in_background;
    CheckpointWriter writer(options);
    CheckpointTimes times;
    const at::Tensor work = at::ones({512, 512});
    const auto step = [&] { at::mm(work, work); };
    for (int round = 0; round <= rounds_; ++round) {
      ++content.step;
      for (int i = 0; i < 20 && round > 0; ++i) times.step_s.push_back(seconds_of(step));
      const double stall_s = seconds_of([&] { writer.save(content); });
      while (in_background && writer.last_times().write_s == 0 && round > 0)
        times.busy_step_s.push_back(seconds_of(step));
      writer.wait();
      if (round == 0) continue;  // allocates
      times.stall_s.push_back(stall_s);
      times.write_s.push_back(writer.last_times().write_s);
    }
    return times;
  }

  // The bound of a snapshot: one more copy of the same bytes.
  double plain_copy_s() const {
    const std::vector<char> from(static_cast<std::size_t>(megabytes_) * 1'000'000, 'a');
    std::vector<char> to(from.size(), 'b');
    std::vector<double> rounds;
    for (int round = 0; round < rounds_; ++round) {
      rounds.push_back(seconds_of([&] { std::memcpy(to.data(), from.data(), from.size()); }));
    }
    return median(rounds);
  }

  void print(const CheckpointTimes& background, const CheckpointTimes& foreground, double copy_s) const {
    const double stall = median(background.stall_s), write = median(background.write_s);
    const double slower =
        background.busy_step_s.empty() ? 1 : median(background.busy_step_s) / median(background.step_s);
    if (json_) {
      const Json out{{"megabytes", megabytes_},       {"rounds", rounds_},
                     {"stall_ms", stall * 1e3},       {"write_ms", write * 1e3},
                     {"stall_share", stall / write},  {"foreground_ms", median(foreground.stall_s) * 1e3},
                     {"plain_copy_ms", copy_s * 1e3}, {"step_slowdown", slower},
                     {"load", load_average()}};
      fmt::print("{}\n", out.dump(2));
      return;
    }
    fmt::print("{} MB, median of {} saves, {} threads; load {:.2f}\n", megabytes_, rounds_, at::get_num_threads(),
               load_average());
    fmt::print("in the background: training waits {:8.1f} ms, {:.1f} % of the {:.0f} ms until it is published\n",
               stall * 1e3, 100 * stall / write, write * 1e3);
    fmt::print("                   a step beside the writing takes {:.2f} times as long\n", slower);
    fmt::print("in the foreground: training waits {:8.1f} ms\n", median(foreground.stall_s) * 1e3);
    fmt::print("bound, one plain copy of the bytes: {:8.1f} ms\n", copy_s * 1e3);
  }

  int megabytes_ = 300;
  int rounds_ = 5;
  std::string output_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Benchmark> make_bench_checkpoint() { return std::make_unique<BenchCheckpoint>(); }

}  // namespace lockstep
