// `lockstep bench optimizer`: one update by Lockstep, one by LibTorch, and one plain pass over the same bytes.
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/measure/benchmark.h"
#include "bench/measure/measurement.h"
#include "bench/measure/plain_pass.h"
#include "bench/tables/bench_fused_update.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/optim/adam.h"
#include "lockstep/optim/flatten.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/optim/update/fused_segment.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;
using Parameters = std::vector<at::Tensor>;

constexpr std::int64_t kWidth = 768;  // of the layers, as in BERT base

// Layers of a square weight and a bias, with gradients, until they have `count` parameters.
Parameters make_parameters(std::int64_t count) {
  Parameters parameters;
  std::int64_t left = count;
  while (left > 0) {
    const std::int64_t rows = std::clamp<std::int64_t>((left - kWidth) / kWidth, 1, kWidth);
    parameters.push_back(torch::randn({rows, kWidth}).mul_(0.02).set_requires_grad(true));
    parameters.push_back(torch::zeros({kWidth}).set_requires_grad(true));
    left -= (rows + 1) * kWidth;
  }
  for (at::Tensor& parameter : parameters) parameter.mutable_grad() = torch::randn_like(parameter.detach());
  return parameters;
}

// Such layers in flat memory, including gradients, laid out as in DistributedDataParallel.
Parameters make_flat_parameters(std::int64_t count) {
  Parameters parameters = make_parameters(count);
  const auto flats = flatten(parameters);
  const at::Tensor gradients = torch::randn_like(flats[0].memory);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    parameters[i].mutable_grad() =
        gradients.narrow(0, flats[0].offsets[i], parameters[i].numel()).view(parameters[i].sizes());
  }
  return parameters;
}

/// One line of the table.
struct Contender {
  std::string optimizer;  // "sgd", "adam", "adamw"
  std::string work;       // "step", "clip+step+zero", "reduce+step", "all ranks"
  std::string system;     // "bound", "libtorch", "lockstep"
  std::function<void()> run;
  std::vector<double> ms = {};
};

struct Rule {
  std::string name;
  int state_buffers;
  std::function<std::unique_ptr<torch::optim::Optimizer>(Parameters)> theirs;
  std::function<std::shared_ptr<FlatOptimizer>(Parameters)> ours;
};

std::vector<Rule> make_rules() {
  const auto sgd = torch::optim::SGDOptions(1e-3).momentum(0.9).weight_decay(1e-2);
  const auto adam = torch::optim::AdamOptions(1e-3);
  const auto adamw = torch::optim::AdamWOptions(1e-3);
  return {
      {"sgd", 1, [sgd](Parameters p) { return std::make_unique<torch::optim::SGD>(std::move(p), sgd); },
       [sgd](Parameters p) { return std::make_shared<SGD>(std::move(p), sgd); }},
      {"adam", 2, [adam](Parameters p) { return std::make_unique<torch::optim::Adam>(std::move(p), adam); },
       [adam](Parameters p) { return std::make_shared<Adam>(std::move(p), adam); }},
      {"adamw", 2, [adamw](Parameters p) { return std::make_unique<torch::optim::AdamW>(std::move(p), adamw); },
       [adamw](Parameters p) { return std::make_shared<AdamW>(std::move(p), adamw); }},
  };
}

class BenchOptimizer : public Benchmark {
 public:
  void add(CLI::App& app) override {
    std::vector<std::string> names;
    for (const Rule& rule : rules_) names.push_back(rule.name);
    app.add_option("--optimizers", chosen_, "which to measure; default: all")
        ->delimiter(',')
        ->check(CLI::IsMember(names));
    app.add_option("--parameters", count_, "number of elements to update")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    app.add_option("--ranks", ranks_, "ranks whose gradients `reduce+step` adds; it updates one rank's share")
        ->capture_default_str()
        ->check(CLI::Range(1, 64));
    app.add_option("--threads", threads_, "of LibTorch and of ours")->capture_default_str()->check(CLI::Range(1, 1024));
    app.add_option("--rounds", rounds_, "turns that each gets")->capture_default_str()->check(CLI::Range(1, 999));
    app.add_flag("--json", json_, "print a JSON array");
    show_examples(app,
                  {"lockstep bench optimizer", "lockstep bench optimizer --optimizers adamw --parameters 110000000"});
  }

  int run() override {
    at::set_num_threads(threads_);
    const at::NoGradGuard no_grad;
    Json rows = Json::array();
    if (!json_) print_head();
    for (const Rule& rule : rules_) {
      if (!chosen_.empty() && std::count(chosen_.begin(), chosen_.end(), rule.name) == 0) continue;
      std::vector<Contender> contenders = make_contenders(rule);
      measure(contenders);
      measure_all_ranks(rule, contenders);
      report(contenders, rows);
    }
    if (json_) fmt::print("{}\n", rows.dump(2));
    return 0;
  }

 private:
  std::vector<Contender> make_contenders(const Rule& rule) const {
    std::vector<Contender> all;
    add_plain_step(rule, all);
    add_clipped_step(rule, all);
    add_reduced_step(rule, all);
    return all;
  }

  // A plain pass: multiplies weights and state in place, and reads the gradients or multiplies them, too.
  std::function<void()> bound(const Rule& rule, std::int64_t numel, std::int64_t gradients,
                              bool writes_gradients) const {
    std::vector<at::Tensor> written;
    for (int i = 0; i <= rule.state_buffers; ++i) written.push_back(make_plain(numel));
    std::vector<at::Tensor> read;
    for (std::int64_t i = 0; i < gradients; ++i) (writes_gradients ? written : read).push_back(make_plain(numel));
    return [written, read] { pass_through(written, read); };
  }

  void add_plain_step(const Rule& rule, std::vector<Contender>& all) const {
    const auto flat = make_flat_parameters(count_);
    all.push_back({rule.name, "step", "bound", bound(rule, count_, 1, false)});
    all.push_back({rule.name, "step", "libtorch",
                   [optimizer = std::shared_ptr(rule.theirs(make_parameters(count_)))] { optimizer->step(); }});
    all.push_back({rule.name, "step", "lockstep", [optimizer = rule.ours(flat)] { optimizer->step(); }});
  }

  void add_clipped_step(const Rule& rule, std::vector<Contender>& all) const {
    const auto theirs = make_parameters(count_);
    const auto ours = make_flat_parameters(count_);
    // The norm must be known before the first weight changes, so the gradients are read twice.
    all.push_back(
        {rule.name, "clip+step+zero", "bound", [pass = bound(rule, count_, 1, true), gradients = make_plain(count_)] {
           pass_through({}, {gradients});
           pass();
         }});
    all.push_back({rule.name, "clip+step+zero", "libtorch", [theirs, optimizer = std::shared_ptr(rule.theirs(theirs))] {
                     torch::nn::utils::clip_grad_norm_(theirs, 1);
                     optimizer->step();
                     optimizer->zero_grad();
                   }});
    all.push_back({rule.name, "clip+step+zero", "lockstep", [optimizer = rule.ours(ours)] {
                     StepOptions options;
                     options.max_norm = 1;
                     options.zero_grad = true;
                     optimizer->step_with(options);
                   }});
  }

  // A rank's work in a step of a data-parallel job, measured alone: adding all ranks' gradients and updating.
  void add_reduced_step(const Rule& rule, std::vector<Contender>& all) const {
    const std::int64_t share = count_ / ranks_;
    all.push_back({rule.name, "reduce+step", "bound", bound(rule, share, ranks_, false)});
    // This favours LibTorch: a bound of an all-reduce, one pass in place, and then its update of everything.
    all.push_back(
        {rule.name, "reduce+step", "libtorch",
         [gradients = make_plain(count_), optimizer = std::shared_ptr(rule.theirs(make_parameters(count_)))]() mutable {
           gradients.mul_(1.0001);
           optimizer->step();
         }});
    all.push_back({rule.name, "reduce+step", "lockstep", reduced_step(rule)});
  }

  std::function<void()> reduced_step(const Rule& rule) const {
    Parameters parameters = make_parameters(count_);
    FlatParameters flat = flatten(parameters)[0];
    auto optimizer = rule.ours(parameters);
    optimizer->shard({FusedSegment{flat.parameters, flat.offsets, 0, flat.memory.numel() / ranks_}});
    std::vector<at::Tensor> gradients;
    for (int rank = 0; rank < ranks_; ++rank) gradients.push_back(torch::randn_like(flat.memory));
    return [flat, optimizer, gradients, ranks = ranks_] {
      std::vector<void*> sources;
      for (const at::Tensor& gradient : gradients) sources.push_back(gradient.data_ptr());
      SegmentUpdate update;
      update.weights = update.weights_out = flat.memory.data_ptr();
      update.gradient.sources = sources.data();
      update.gradient.num_sources = sources.size();
      update.gradient.divisor = ranks;
      optimizer->update_segment(0, update);
    };
  }

  // Twice the size of the last cache, so that no contender finds its memory there.
  static at::Tensor make_evicting() {
    const long cache_bytes = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
    return torch::zeros({2 * std::clamp(cache_bytes, 32L << 20, 512L << 20) / 4});
  }

  // The whole step of a data-parallel job, including the ranks' waits for each other.
  void measure_all_ranks(const Rule& rule, std::vector<Contender>& contenders) const {
    FusedUpdateBench bench;
    bench.ranks = ranks_;
    bench.rounds = rounds_;
    bench.make_parameters = [this] { return make_parameters(count_); };
    bench.theirs = rule.theirs;
    bench.ours = rule.ours;
    bench.evict = [evicting = make_evicting()] { evicting.count_nonzero(); };
    bench.bound = [this, &rule](std::int64_t numel) { return bound(rule, numel / ranks_, ranks_, false); };
    const auto ms = time_fused_update(bench);
    const char* const systems[] = {"bound", "libtorch", "lockstep"};
    for (std::size_t i = 0; i < ms.size(); ++i) {
      contenders.push_back({rule.name, "all ranks", systems[i], nullptr, ms[i]});
    }
  }

  void measure(std::vector<Contender>& contenders) const {
    const at::Tensor evicting = make_evicting();
    for (Contender& contender : contenders) contender.run();  // allocates its state
    for (int round = 0; round < rounds_; ++round) {
      for (std::size_t i = 0; i < contenders.size(); ++i) {
        Contender& contender = contenders[(i + static_cast<std::size_t>(round)) % contenders.size()];
        at::Tensor(evicting).add_(1);
        const auto start = std::chrono::steady_clock::now();
        contender.run();
        const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
        contender.ms.push_back(took.count());
      }
    }
  }

  void print_head() const {
    double load = -1;
    if (::getloadavg(&load, 1) != 1) load = -1;
    fmt::print("{} parameters, {} thread(s), {} rounds in turn, cold; {} cores, load {:.2f}\n", count_, threads_,
               rounds_, available_cores(), load);
    fmt::print(
        "bound: one plain pass over the bytes that are read and written; reduce+step: one rank's share of {}, with "
        "nobody beside it;\nall ranks: reduce, step and publish on {} ranks at once. Libtorch's side there: a bound of "
        "the all-reduce, then its step\n\n",
        ranks_, ranks_);
    fmt::print("{:<6} {:<15} {:<9} {:>10} {:>9} {:>12} {:>12}\n", "", "", "", "median ms", "best ms", "x libtorch",
               "of the bound");
  }

  void report(const std::vector<Contender>& contenders, Json& rows) const {
    // Three contenders for each kind of work: bound, libtorch, lockstep.
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      const Contender& c = contenders[i];
      const Contender& bound_of_it = contenders[i / 3 * 3];
      const Contender& libtorch = contenders[i / 3 * 3 + 1];
      const double ms = median(c.ms);
      const double best = *std::min_element(c.ms.begin(), c.ms.end());
      rows.push_back({{"optimizer", c.optimizer},
                      {"work", c.work},
                      {"system", c.system},
                      {"parameters", count_},
                      {"threads", threads_},
                      {"median_ms", ms},
                      {"min_ms", best},
                      {"bound_ms", median(bound_of_it.ms)}});
      if (json_) continue;
      fmt::print("{:<6} {:<15} {:<9} {:>10.2f} {:>9.2f} {:>12.2f} {:>11.0f}%\n", c.optimizer, c.work, c.system, ms,
                 best, median(libtorch.ms) / ms, 100 * median(bound_of_it.ms) / ms);
    }
  }

  const std::vector<Rule> rules_ = make_rules();
  std::vector<std::string> chosen_;
  std::int64_t count_ = 10'000'000;
  int ranks_ = 2;
  int threads_ = 1;
  int rounds_ = 9;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Benchmark> make_bench_optimizer() { return std::make_unique<BenchOptimizer>(); }

}  // namespace lockstep
