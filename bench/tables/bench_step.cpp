// `lockstep bench step`: forward, backward, synchronisation and update, by Lockstep and PyTorch in turn.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "bench/measure/benchmark.h"
#include "bench/measure/measurement.h"
#include "bench/measure/step_profile.h"
#include "bench/measure/worker_program.h"
#include "bench/tables/step_contender.h"
#include "lockstep/base/error.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/base/text/precision_name.h"
#include "lockstep/seeing/chart/chart_sheet.h"
#include "tools/frame/chart_file.h"
#include "tools/frame/progress_line.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

class BenchStep : public Benchmark {
 public:
  void add(CLI::App& app) override {
    app.add_option("--model", work_.model,
                   "convnet, mlp-wide (31.6 MB of gradients; mlp means it too), mlp-kdd (NSL-KDD's), bert-tiny, -mini, "
                   "-small, -base, gpt2, or the folder of a text model, whose weights are not read")
        ->capture_default_str()
        ->check(CLI::IsMember({"convnet", "mlp", "mlp-wide", "mlp-kdd", "bert-tiny", "bert-mini", "bert-small",
                               "bert-base", "gpt2"}) |
                CLI::ExistingDirectory);
    app.add_option("--batch", work_.batch, "samples per rank and step")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    app.add_option("--seq", work_.sequence_length, "tokens of each text, for text models")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--dtype", work_.dtype,
                   "fp32, or bf16: forward and backward by autocast, ours and the peers'; weights, gradients and the "
                   "update stay fp32")
        ->capture_default_str()
        ->transform(precision_name)
        ->check(CLI::IsMember({"fp32", "bf16"}));
    app.add_option("--ranks", ranks_, "numbers of ranks to run, e.g. 1,2")
        ->delimiter(',')
        ->check(CLI::Range(1, 64))
        ->capture_default_str();
    app.add_option(
           "--modes", modes_,
           "how ours steps. fused: ddp.fuse(optimizer); stage-2: as fused, and owners keep the gradients; stage-3: "
           "and the weights, on engines between which ranks share no memory; unfused: "
           "all-reduce, then our optimizer; libtorch: "
           "all-reduce, then LibTorch's optimizer; alone: our optimizer, and the ranks never communicate; barrier: as "
           "alone, but they wait for each other in each step, which bounds what any way of averaging can reach; "
           "fused-casts: as fused, but in bf16 every forward casts the weights, and the step publishes no bf16 copy; "
           "fused-traced, unfused-traced: as these, and a trace records every step")
        ->delimiter(',')
        ->capture_default_str()
        ->check(CLI::IsMember({"fused", "fused-casts", "stage-2", "stage-3", "unfused", "fused-traced",
                               "unfused-traced", "libtorch", "alone", "barrier"}));
    app.add_option("--peer", peers_,
                   "Python's DDP over Gloo in turn with ours. pytorch: our layers, fused Adam and attention if the "
                   "version has them, with the threads and environment of ours; pytorch-default: plain Adam, as "
                   "torchrun starts it; pytorch-compile: as pytorch, by torch.compile; pytorch-fsdp2: as pytorch, by "
                   "fully_shard; huggingface, "
                   "huggingface-default, huggingface-compile: the same for its BERT and GPT-2; default: none")
        ->delimiter(',')
        ->check(CLI::IsMember(step_peers()));
    app.add_option("--builds", builds_,
                   "build folders of other builds of Lockstep to measure in turn with this one, such as build/torch "
                   "with another LibTorch")
        ->delimiter(',');
    app.add_option("--device", work_.device,
                   "cpu, or cuda: each rank, ours and PyTorch's, on the device of its LOCAL_RANK, gradients by NCCL")
        ->capture_default_str()
        ->check(CLI::IsMember({"cpu", "cuda"}));
    app.add_option("--engine", work_.engine, "engine that connects our ranks; default: the fastest there is");
    app.add_option("--threads", work_.threads,
                   "threads of each rank, for all numbers of ranks alike; default: cores / the largest number of ranks")
        ->check(CLI::PositiveNumber);
    app.add_option("--rounds", rounds_, "turns that each system gets")->capture_default_str()->check(CLI::Range(1, 99));
    app.add_option("--steps", work_.steps, "steps to measure in a turn, after a fifth as many to warm up")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    app.add_option("--python", work_.python, "interpreter that has torch")->capture_default_str();
    app.add_flag(
        "--profile", work_.profile,
        "after the measured steps run as many with a clock around every operator, and print which part of our step is "
        "matrix products, how long they take by themselves (the bound of a step), and what the rest is");
    app.add_flag("--json", json_, "print a JSON array");
    app.add_option("--plot", plot_, "write a chart of samples per second against ranks to this file, .svg or .png");
    show_examples(app,
                  {"lockstep bench step --model convnet --batch 100 --ranks 1,2 --peer pytorch",
                   "lockstep bench step --model mlp --batch 64 --ranks 2 --modes fused,unfused,alone",
                   "lockstep bench step --model convnet --ranks 2 --engine gloo --json",
                   "lockstep bench step --model bert-base --batch 4 --seq 128 --ranks 2 --dtype bf16 --peer pytorch",
                   "lockstep bench step --model bert-mini --batch 4 --ranks 1,2,4 --plot step.svg",
                   "lockstep bench step --device cuda --modes unfused --model bert-base --batch 32 --seq 128 "
                   "--ranks 1,8 --peer pytorch --python torch-env/bin/python3"});
  }

  int run() override {
    if (!plot_.empty()) check_chart_path(plot_);
    if (!peers_.empty()) check_step_peers(peers_, work_);
    if (work_.threads == 0) {
      work_.threads = std::max(1, available_cores() / *std::max_element(ranks_.begin(), ranks_.end()));
    }
    std::vector<StepContender> contenders = all_contenders();
    measure(contenders);
    if (!plot_.empty()) write_chart(plot_, chart(contenders));
    report(contenders);
    return 0;
  }

 private:
  std::vector<StepContender> all_contenders() const {
    std::vector<StepContender> contenders;
    for (const int ranks : ranks_) {
      for (const std::string& mode : modes_) {
        const std::string system = mode == modes_.front() ? "lockstep" : "lockstep-" + mode;
        contenders.push_back(our_contender(system, work_, ranks, mode));
      }
      for (const std::string& build : builds_) {
        contenders.push_back(contender_of_build(build, work_, ranks, modes_.front()));
      }
      for (const std::string& peer : peers_) contenders.push_back(peer_contender(peer, work_, ranks));
    }
    return contenders;
  }

  void measure(std::vector<StepContender>& contenders) {
    const ProgressLine progress;
    for (int round = 0; round < rounds_; ++round) {
      for (StepContender& contender : contenders) {
        progress.show(
            fmt::format("round {} of {}: {}, {} rank(s)", round + 1, rounds_, contender.system, contender.ranks));
        take_turn(contender);
      }
    }
  }

  void take_turn(StepContender& contender) {
    const Json result = results_of(contender.command, contender.system, 1).front();
    const std::int64_t parameters = result["parameters"];
    if (parameters_ == 0) parameters_ = parameters;
    if (parameters != parameters_) {
      throw Error(
          fmt::format("{} trains {} parameters, but the others train {}", contender.system, parameters, parameters_),
          contender.command,
          "make the models of bench/peers/pytorch_models.py equal to those of src/lockstep/models again");
    }
    contender.details = result.value("details", "a build that does not say");
    contender.median_ms.push_back(result["median_ms"]);
    contender.rss_mib = std::max<double>(contender.rss_mib, result["rss_mib"]);
    contender.profile = result.value("profile", Json());
  }

  double samples_per_s(const StepContender& contender) const {
    return 1000.0 * static_cast<double>(work_.batch) * contender.ranks / median(contender.median_ms);
  }

  std::string chart(const std::vector<StepContender>& contenders) const {
    Chart chart{fmt::format("{}, {}, batch {} per rank, {} thread(s) each", work_.model, work_.dtype, work_.batch,
                            work_.threads),
                "ranks",
                "samples per second",
                {},
                /*ticks_at_points=*/true};
    for (const StepContender& contender : contenders) {
      auto line = std::find_if(chart.lines.begin(), chart.lines.end(),
                               [&](const ChartLine& l) { return l.name == contender.system; });
      if (line == chart.lines.end()) line = chart.lines.insert(line, {contender.system, {}});
      line->points.emplace_back(contender.ranks, samples_per_s(contender));
    }
    for (ChartLine& line : chart.lines) std::sort(line.points.begin(), line.points.end());
    return svg_charts({chart});
  }

  void report(const std::vector<StepContender>& contenders) const {
    Json rows = Json::array();
    for (const StepContender& contender : contenders) {
      rows.push_back({{"system", contender.system},
                      {"model", work_.model},
                      {"batch", work_.batch},
                      {"seq", work_.sequence_length},
                      {"dtype", work_.dtype},
                      {"device", work_.device},
                      {"ranks", contender.ranks},
                      {"median_ms", median(contender.median_ms)},
                      {"samples_per_s", samples_per_s(contender)},
                      {"rss_mib_per_rank", contender.rss_mib},
                      {"details", contender.details}});
      if (work_.profile) rows.back()["profile"] = contender.profile;
    }
    if (json_) {
      fmt::print("{}\n", rows.dump(2));
      return;
    }
    fmt::print(
        "{}, {}, batch {} per rank, {} thread(s) each, {} rounds of {} steps, medians; {} cores, load {:.2f}\n\n",
        work_.model, work_.dtype, work_.batch, work_.threads, rounds_, work_.steps, available_cores(), load_average());
    fmt::print("{:<20} {:>5} {:>11} {:>11} {:>11} {:>8} {:>12}\n", "system", "ranks", "median ms", "best ms",
               "samples/s", "scaling", "MiB per rank");
    std::map<std::string, double> one_rank;
    for (const StepContender& c : contenders) {
      if (c.ranks == 1) one_rank[c.system] = samples_per_s(c);
    }
    for (const StepContender& c : contenders) {
      const auto base = one_rank.find(c.system);
      const std::string scaling = base == one_rank.end() ? "" : fmt::format("{:.2f}", samples_per_s(c) / base->second);
      fmt::print("{:<20} {:>5} {:>11.3f} {:>11.3f} {:>11.0f} {:>8} {:>12.0f}\n", c.system, c.ranks, median(c.median_ms),
                 *std::min_element(c.median_ms.begin(), c.median_ms.end()), samples_per_s(c), scaling, c.rss_mib);
    }
    print_ratios(contenders);
    fmt::print("\n");
    std::set<std::string> described;
    for (const StepContender& c : contenders) {
      if (described.insert(c.system).second) fmt::print("{:<20} {}\n", c.system, c.details);
    }
    for (const StepContender& c : contenders) {
      if (!c.profile.is_null()) fmt::print("{}", step_profile_text(c.system, c.ranks, c.profile));
    }
  }

  // This build is compared with all others, and another build of ours with the peers.
  static bool is_compared(const StepContender& ours, const StepContender& theirs) {
    if (ours.ranks != theirs.ranks) return false;
    if (ours.system == "lockstep") return theirs.system != "lockstep";
    return ours.system.rfind("lockstep@", 0) == 0 && theirs.system.rfind("lockstep", 0) != 0;
  }

  // Compares with each one of as many ranks, round by round, because the machine's speed drifts.
  void print_ratios(const std::vector<StepContender>& contenders) const {
    for (const StepContender& ours : contenders) {
      for (const StepContender& theirs : contenders) {
        if (!is_compared(ours, theirs)) continue;
        std::vector<double> ratios;
        for (std::size_t r = 0; r < ours.median_ms.size(); ++r) {
          ratios.push_back(theirs.median_ms[r] / ours.median_ms[r]);
        }
        fmt::print("\n{} rank(s): {}{:.2f} times the samples per second of {} (median over rounds; {:.2f} to {:.2f})\n",
                   ours.ranks, ours.system == "lockstep" ? "" : ours.system + " has ", median(ratios), theirs.system,
                   *std::min_element(ratios.begin(), ratios.end()), *std::max_element(ratios.begin(), ratios.end()));
      }
    }
  }

  StepWork work_;
  std::int64_t parameters_ = 0;  // of the model, from the first turn
  std::vector<int> ranks_ = {1, 2};
  std::vector<std::string> modes_ = {"fused"};  // the first one is called "lockstep"
  std::vector<std::string> peers_;
  std::vector<std::string> builds_;
  int rounds_ = 7;
  bool json_ = false;
  std::string plot_;
};

}  // namespace

std::unique_ptr<Benchmark> make_bench_step() { return std::make_unique<BenchStep>(); }

}  // namespace lockstep
