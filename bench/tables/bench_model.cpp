// `lockstep bench model`: forward and backward of a text model, compared with Hugging Face's on the same LibTorch.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "bench/measure/bench_folder.h"
#include "bench/measure/benchmark.h"
#include "bench/measure/measurement.h"
#include "bench/measure/model_batch.h"
#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/processor/process_memory.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/base/text/precision_name.h"
#include "lockstep/detail/models/config_file.h"
#include "lockstep/detail/tensor/autocast.h"
#include "lockstep/models/registry.h"
#include "tools/frame/companion.h"
#include "tools/frame/scratch_folder.h"
#include "tools/frame/shell.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// The result of one turn of one system.
struct ModelTurn {
  std::string version;
  double loss = 0;  // without dropout, so that systems can be compared
  std::int64_t parameters = 0;
  double forward_ms = 0;  // medians over the steps of the turn
  double backward_ms = 0;
  double step_ms = 0;
  double peak_mib = 0;
};

ModelTurn turn_of_peer(const Json& answer) {
  const auto forward = answer.at("forward_ms").get<std::vector<double>>();
  const auto backward = answer.at("backward_ms").get<std::vector<double>>();
  std::vector<double> both(forward.size());
  std::transform(forward.begin(), forward.end(), backward.begin(), both.begin(), std::plus<>());
  return {answer.at("version"), answer.at("loss"), answer.at("parameters"), median(forward),
          median(backward),     median(both),      answer.at("peak_mib")};
}

// Reads the output of the same command, run with --in-process.
ModelTurn turn_of_ours(const Json& row) {
  return {row.at("version"),     row.at("loss"),      row.at("parameters"), row.at("forward_ms"),
          row.at("backward_ms"), row.at("median_ms"), row.at("peak_mib")};
}

class BenchModel : public Benchmark {
 public:
  void add(CLI::App& app) override {
    app.add_option("--model", model_, "bert-tiny, -mini, -small, -base, gpt2, or the folder of a BERT or GPT-2")
        ->capture_default_str();
    app.add_option("--batch", batch_, "texts in a step")->capture_default_str()->check(CLI::PositiveNumber);
    app.add_option("--seq", sequence_length_, "tokens of a text at most")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    app.add_option("--dtype", dtype_, "fp32, or bf16 by autocast, on both sides")
        ->capture_default_str()
        ->transform(precision_name)
        ->check(CLI::IsMember({"fp32", "bf16"}));
    app.add_option("--steps", steps_, "steps to measure in a turn, after a fifth as many to warm up")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    app.add_option("--rounds", rounds_, "turns that each system gets, one after the other")
        ->capture_default_str()
        ->check(CLI::Range(1, 99));
    app.add_option("--peer", peer_,
                   "huggingface: transformers' model on the same weights, threads and heap, in turn with ours")
        ->check(CLI::IsMember({"huggingface"}));
    app.add_option("--python", python_, "interpreter that has torch and transformers")->capture_default_str();
    CLI::Option* threads =
        app.add_option("--threads", threads_, "threads of each; default: one per core")->check(CLI::PositiveNumber);
    app.add_flag("--in-process", in_process_,
                 "measure ours in this process with the threads and the heap that it has; else each turn is a process "
                 "of its own, started by lockstep run")
        ->excludes(threads);
    app.add_flag("--json", json_, "print a JSON array");
    show_examples(app, {"lockstep bench model --model bert-tiny",
                        "lockstep bench model --model bert-base --batch 4 --seq 128 --peer huggingface --python "
                        "venv/bin/python"});
  }

  int run() override {
    if (in_process_ && !peer_.empty()) {
      throw UsageError("--peer and --in-process cannot be combined", "command line", "leave one of them out");
    }
    if (!peer_.empty()) check_python();
    if (threads_ == 0) threads_ = in_process_ ? at::get_num_threads() : available_cores();
    const ScratchFolder scratch("lockstep-bench-model");
    const std::string folder = scratch / "model";
    at::manual_seed(0);
    save_model(fs::is_directory(model_) ? *read_model(model_) : *make_text_model(), folder);
    std::vector<ModelContender> contenders{{"lockstep", {}}};
    if (!peer_.empty()) contenders.push_back({peer_, {}});
    for (int round = 0; round < rounds_; ++round) {
      for (ModelContender& contender : contenders) {
        if (!json_) std::fprintf(stderr, "round %d of %d: %s\n", round + 1, rounds_, contender.system.c_str());
        contender.turns.push_back(in_process_ ? measure(folder) : take_turn(contender.system, folder));
        compare(contenders[0].turns[0], contender);
      }
    }
    json_ ? print_json(contenders) : print_table(contenders);
    return 0;
  }

 private:
  struct ModelContender {
    std::string system;
    std::vector<ModelTurn> turns;
    double middle(double ModelTurn::*figure) const {
      std::vector<double> values;
      for (const ModelTurn& turn : turns) values.push_back(turn.*figure);
      return median(values);
    }
  };

  void check_python() const {
    const auto [code, out] = run_shell(shell_quoted(python_) + " -c 'import torch, transformers' 2>&1");
    if (code == 0) return;
    const std::string last = out.substr(0, out.find_last_not_of('\n') + 1);
    throw Error(
        fmt::format("{} cannot load torch and transformers: {}", python_, last.substr(last.rfind('\n') + 1)),
        "--peer huggingface",
        "make a virtual environment over a Python that has torch (python3 -m venv --system-site-packages venv; "
        "venv/bin/pip install transformers; 4.30.2 works with torch 1.13), and name its interpreter by --python");
  }

  std::shared_ptr<Model> make_text_model() const {
    auto model = make_model(model_);
    if (model->input_kind() == InputKind::Text) return model;
    throw UsageError("the model " + model_ + " takes no texts", "--model",
                     "name a BERT or GPT-2; lockstep bench step measures the others");
  }

  // A head that the folder lacks gets random weights.
  static std::shared_ptr<Model> read_model(const std::string& folder) {
    const TextTask task =
        is_classifier(ConfigFile(folder)) ? TextTask::SequenceClassification : TextTask::CausalLanguageModel;
    return load_pretrained_model(folder, task).model;
  }

  // Measures Lockstep, in this process.
  ModelTurn measure(const std::string& folder) const {
    if (const auto threads = env_int("OMP_NUM_THREADS")) at::set_num_threads(static_cast<int>(*threads));
    const ConfigFile config(folder);
    const std::shared_ptr<Model> model = read_model(folder);
    const Batch batch = make_model_batch(config, batch_, sequence_length_);
    ModelTurn turn;
    turn.version = "LibTorch " TORCH_VERSION;
    for (const at::Tensor& parameter : model->parameters()) turn.parameters += parameter.numel();
    model->eval();
    turn.loss = loss_without_graph(*model, batch);
    model->train();
    std::vector<double> forward_ms, backward_ms, both_ms;
    for (int step = -std::max(2, steps_ / 5); step < steps_; ++step) {
      model->zero_grad(/*set_to_none=*/true);
      const auto start = std::chrono::steady_clock::now();
      const at::Tensor loss = loss_of(*model, batch);
      const auto middle = std::chrono::steady_clock::now();
      loss.backward();
      const auto end = std::chrono::steady_clock::now();
      if (step < 0) continue;
      forward_ms.push_back(std::chrono::duration<double, std::milli>(middle - start).count());
      backward_ms.push_back(std::chrono::duration<double, std::milli>(end - middle).count());
      both_ms.push_back(forward_ms.back() + backward_ms.back());
    }
    turn.forward_ms = median(forward_ms);
    turn.backward_ms = median(backward_ms);
    turn.step_ms = median(both_ms);
    turn.peak_mib = static_cast<double>(process_memory().peak_resident) / (1 << 20);
    return turn;
  }

  at::Tensor output_of(Model& model, const Batch& batch) const {
    const Autocast autocast(c10::DeviceType::CPU, at::kBFloat16, dtype_ == "bf16");
    return model.forward(batch).to(at::kFloat);
  }

  at::Tensor loss_of(Model& model, const Batch& batch) const {
    return model.loss(output_of(model, batch), batch).mean();
  }

  double loss_without_graph(Model& model, const Batch& batch) const {
    const at::NoGradGuard no_grad;
    return loss_of(model, batch).item<double>();
  }

  // Runs one turn in a new process, with the threads and the heap settings that `lockstep run` gives to both systems.
  ModelTurn take_turn(const std::string& system, const std::string& folder) const {
    std::string command;
    for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"}) {
      command += fmt::format("{}={} ", name, threads_);
    }
    const std::string lockstep = shell_quoted(companion_program("lockstep"));
    command += lockstep + " run --nproc-per-node 1 ";
    command += system == "lockstep"
                   ? lockstep + " bench model --in-process --rounds 1 --json"
                   : shell_quoted(python_) + " " + shell_quoted(bench_folder() + "/peers/huggingface_model.py");
    command += fmt::format(" --model {} --batch {} --seq {} --steps {} --dtype {}", shell_quoted(folder), batch_,
                           sequence_length_, steps_, dtype_);
    const auto [code, out] = run_shell(command);
    const Json answer = Json::parse(out, nullptr, /*allow_exceptions=*/false);
    if (code != 0 || answer.is_discarded()) {
      throw Error(fmt::format("{} printed no result; exit code {}", system, code), command,
                  "run this command by hand and read its messages");
    }
    return system == "lockstep" ? turn_of_ours(answer.at(0)) : turn_of_peer(answer);
  }

  // The figures are worthless if the two systems compute different things.
  void compare(const ModelTurn& ours, const ModelContender& contender) const {
    const ModelTurn& theirs = contender.turns.back();
    if (theirs.parameters != ours.parameters) {
      throw Error(fmt::format("{} trains {} parameters, but lockstep trains {}", contender.system, theirs.parameters,
                              ours.parameters),
                  "bench model", "report this");
    }
    const double tolerance = dtype_ == "bf16" ? 2e-2 : 1e-4;  // bf16 has 8 bits; order and places of rounding differ
    if (!(std::abs(theirs.loss - ours.loss) <= tolerance * std::max(1.0, std::abs(ours.loss)))) {
      throw Error(fmt::format("the loss of {} is {}, but lockstep's is {}", contender.system, theirs.loss, ours.loss),
                  "bench model, without dropout", "report this");
    }
  }

  void print_json(const std::vector<ModelContender>& contenders) const {
    Json rows = Json::array();
    for (const ModelContender& c : contenders) {
      rows.push_back({{"system", c.system},
                      {"version", c.turns[0].version},
                      {"model", model_},
                      {"batch", batch_},
                      {"seq", sequence_length_},
                      {"dtype", dtype_},
                      {"threads", threads_},
                      {"parameters", c.turns[0].parameters},
                      {"loss", c.turns[0].loss},
                      {"forward_ms", c.middle(&ModelTurn::forward_ms)},
                      {"backward_ms", c.middle(&ModelTurn::backward_ms)},
                      {"median_ms", c.middle(&ModelTurn::step_ms)},
                      {"peak_mib", c.middle(&ModelTurn::peak_mib)}});
    }
    fmt::print("{}\n", rows.dump(2));
  }

  void print_table(const std::vector<ModelContender>& contenders) const {
    fmt::print(
        "{}, {}, {} parameters, batch {} of {} tokens, forward and backward with dropout, {} thread(s), {} rounds of "
        "{} steps, medians; {} cores, load {:.2f}\n\n",
        model_, dtype_, contenders[0].turns[0].parameters, batch_, sequence_length_, threads_, rounds_, steps_,
        available_cores(), load_average());
    fmt::print("{:<12} {:>11} {:>12} {:>9} {:>9} {:>9} {:>10} {:>9}  {}\n", "system", "forward ms", "backward ms",
               "both ms", "best ms", "texts/s", "loss", "peak MiB", "");
    for (const ModelContender& c : contenders) {
      double best_ms = c.turns[0].step_ms;
      for (const ModelTurn& turn : c.turns) best_ms = std::min(best_ms, turn.step_ms);
      const double step_ms = c.middle(&ModelTurn::step_ms);
      fmt::print("{:<12} {:>11.2f} {:>12.2f} {:>9.2f} {:>9.2f} {:>9.1f} {:>10.6f} {:>9.0f}  {}\n", c.system,
                 c.middle(&ModelTurn::forward_ms), c.middle(&ModelTurn::backward_ms), step_ms, best_ms,
                 1000.0 * static_cast<double>(batch_) / step_ms, c.turns[0].loss, c.middle(&ModelTurn::peak_mib),
                 c.turns[0].version);
    }
    for (std::size_t i = 1; i < contenders.size(); ++i) print_ratio(contenders[0], contenders[i]);
  }

  // Compares round by round, because the machine's speed drifts.
  static void print_ratio(const ModelContender& ours, const ModelContender& theirs) {
    std::vector<double> ratios;
    for (std::size_t r = 0; r < ours.turns.size(); ++r)
      ratios.push_back(theirs.turns[r].step_ms / ours.turns[r].step_ms);
    fmt::print("\n{:.2f} times the texts per second of {} (median over rounds; {:.2f} to {:.2f})\n", median(ratios),
               theirs.system, *std::min_element(ratios.begin(), ratios.end()),
               *std::max_element(ratios.begin(), ratios.end()));
  }

  std::string model_ = "bert-base";
  std::int64_t batch_ = 4;
  std::int64_t sequence_length_ = 128;
  std::string dtype_ = "fp32";
  int steps_ = 10;
  int rounds_ = 5;
  std::string peer_;
  std::string python_ = "/usr/bin/python3";
  int threads_ = 0;
  bool in_process_ = false;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Benchmark> make_bench_model() { return std::make_unique<BenchModel>(); }

}  // namespace lockstep
