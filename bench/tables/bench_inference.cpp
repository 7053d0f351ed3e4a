// `lockstep bench inference`: one replica and several, by batch size.
#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "bench/measure/baseline_threads.h"
#include "bench/measure/bench_folder.h"
#include "bench/measure/benchmark.h"
#include "bench/measure/measurement.h"
#include "lockstep/base/error.h"
#include "lockstep/base/processor/heap.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/models/registry.h"
#include "lockstep/replicas/parallel_inference.h"
#include "tools/frame/progress_line.h"
#include "tools/frame/replica_flag.h"
#include "tools/frame/sequence_flag.h"
#include "tools/frame/shell.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;
using Parallel = DataParallel<std::shared_ptr<Model>>;

struct InferenceRow {
  std::string method;
  std::int64_t batch = 0;
  std::vector<double> batch_ms;  // one per round
};

class BenchInference : public Benchmark {
 public:
  void add(CLI::App& app) override {
    std::vector<std::string> names;
    for (const auto& info : registered_models()) names.push_back(info.name);
    app.add_option("--model", model_, "a shipped model")->capture_default_str()->check(CLI::IsMember(names));
    app.add_option("--batch", batches_, "batch sizes, a column of the table for each")
        ->delimiter(',')
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    app.add_option("--seq", sequence_length_, "tokens of each text, for text models")->check(CLI::PositiveNumber);
    app.add_option("--devices", devices_, "of the replicas, e.g. cpu:0,cpu:1; default: all")
        ->delimiter(',')
        ->check(replica_device_name());
    app.add_option("--rounds", rounds_, "turns that each method gets")->capture_default_str()->check(CLI::Range(1, 99));
    app.add_option("--steps", steps_, "batches in a turn")->capture_default_str()->check(CLI::PositiveNumber);
    app.add_option("--peer", peer_, "pytorch: a single process of Python, with as many threads as there are cores")
        ->check(CLI::IsMember({"pytorch"}));
    app.add_option("--python", python_, "interpreter that has torch")->capture_default_str();
    app.add_flag("--json", json_, "print a JSON array");
    show_examples(app, {"lockstep bench inference --model bert-mini --seq 128 --batch 32,64,128",
                        "lockstep bench inference --model bert-mini --batch 32 --peer pytorch --json"});
  }

  int run() override {
    keep_freed_memory();
    check_peer();
    torch::manual_seed(0);
    const auto model = make_model(model_);
    check_sequence_flag(*model, model_, sequence_length_);
    model->eval();
    const std::vector<ReplicaDevice> devices =
        devices_.empty() ? all_replica_devices() : std::vector<ReplicaDevice>(devices_.begin(), devices_.end());
    for (const ReplicaDevice& device : devices) device.require_present();
    model->to(devices.front().tensor_device());
    Parallel dp(model, devices);
    std::vector<InferenceRow> rows;
    std::sort(batches_.begin(), batches_.end());
    batches_.erase(std::unique(batches_.begin(), batches_.end()), batches_.end());
    for (const std::int64_t batch : batches_) measure(dp, batch, rows);
    progress_.show("");
    json_ ? print_json(rows) : print_table(dp, rows);
    return 0;
  }

 private:
  // Called before any measurement.
  void check_peer() const {
    if (peer_.empty()) return;
    const auto [code, out] = run_shell(shell_quoted(python_) + " -c 'import torch' 2>&1");
    if (code == 0) return;
    const std::string last = out.substr(0, out.find_last_not_of('\n') + 1);
    throw UsageError(fmt::format("{} cannot load torch: {}", python_, last.substr(last.rfind('\n') + 1)), "--python",
                     "name an interpreter that has PyTorch, or leave --peer out");
  }

  void measure(Parallel& dp, std::int64_t size, std::vector<InferenceRow>& rows) {
    RandomBatchOptions options;
    options.size = size;
    options.sequence_length = sequence_length_;
    const Batch batch = dp.module()->random_batch(options);
    std::vector<std::string> methods{kOneThread};
    if (openmp_threads() > 1) methods.push_back(fmt::format("one replica, {} threads", openmp_threads()));
    if (dp.replicas().size() > 1) {
      methods.push_back(fmt::format("{} replicas, batches cut", dp.replicas().size()));
      methods.push_back(fmt::format("{} replicas, batches whole", dp.replicas().size()));
    }
    if (!peer_.empty()) methods.push_back("PyTorch, one process");
    const std::size_t first = rows.size();
    for (const auto& method : methods) rows.push_back({method, size, {}});
    for (int round = 0; round < rounds_; ++round) {
      for (std::size_t i = first; i < rows.size(); ++i) {
        progress_.show(fmt::format("batch {}, round {} of {}: {}", size, round + 1, rounds_, rows[i].method));
        rows[i].batch_ms.push_back(turn_ms(dp, batch, rows[i]));
      }
    }
  }

  // Milliseconds per batch.
  double turn_ms(Parallel& dp, const Batch& batch, const InferenceRow& row) const {
    if (row.method.find("PyTorch") == 0) return peer_ms(row.batch);
    const c10::InferenceMode inference;
    if (row.method.find("cut") != std::string::npos) return timed_ms([&] { dp(batch); }, steps_);
    if (row.method.find("whole") != std::string::npos) {
      const std::vector<Batch> batches(static_cast<std::size_t>(steps_), batch);
      const auto forward = [](auto& replica, const Batch& each) {
        const auto device = replica->parameters().front().device();
        Batch here;
        for (const auto& [name, tensor] : each) here[name] = tensor.to(device);
        return replica->forward(here);
      };
      return timed_ms([&] { parallel_evaluate(dp, batches, forward); }, 1) / steps_;
    }
    const BaselineThreads threads(row.method == kOneThread ? 1 : 0);
    return timed_ms([&] { dp.module()->forward(on_device_of(dp, batch)); }, steps_);
  }

  static Batch on_device_of(Parallel& dp, const Batch& batch) {
    Batch here;
    for (const auto& [name, tensor] : batch) here[name] = tensor.to(dp.device_ids().front().tensor_device());
    return here;
  }

  // The first call warms up.
  template <typename Function>
  static double timed_ms(Function&& function, int count) {
    function();
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < count; ++i) function();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count() / count;
  }

  double peer_ms(std::int64_t batch) const {
    const std::string command = fmt::format("{} {} --model {} --batch {} --seq {} --steps {}", shell_quoted(python_),
                                            shell_quoted(bench_folder() + "/peers/pytorch_inference.py"), model_, batch,
                                            sequence_length_ > 0 ? sequence_length_ : 128, steps_);
    FILE* pipe = ::popen(command.c_str(), "r");
    double ms = 0;
    const bool is_read = pipe != nullptr && std::fscanf(pipe, "%lf", &ms) == 1;
    const bool ended_well = pipe != nullptr && ::pclose(pipe) == 0;
    if (!is_read || !ended_well) throw Error("PyTorch printed no result", command, "run this command by hand");
    return ms;
  }

  static double ms_of(const InferenceRow& row) { return median(row.batch_ms); }

  static const InferenceRow& single_of(const std::vector<InferenceRow>& rows, std::int64_t batch) {
    return *std::find_if(rows.begin(), rows.end(), [&](const InferenceRow& row) { return row.batch == batch; });
  }

  void print_json(const std::vector<InferenceRow>& rows) const {
    Json out = Json::array();
    for (const InferenceRow& row : rows) {
      out.push_back({{"method", row.method},
                     {"model", model_},
                     {"batch", row.batch},
                     {"ms", ms_of(row)},
                     {"samples_per_s", 1e3 * static_cast<double>(row.batch) / ms_of(row)},
                     {"speedup", ms_of(single_of(rows, row.batch)) / ms_of(row)}});
    }
    fmt::print("{}\n", out.dump(2));
  }

  void print_table(Parallel& dp, const std::vector<InferenceRow>& rows) const {
    fmt::print("{}, {} replicas with {} thread(s) each, medians of {} rounds of {} batches; {} cores, load {:.2f}\n\n",
               model_, dp.replicas().size(), dp.replicas().set().threads_per_replica(), rounds_, steps_,
               available_cores(), load_average());
    fmt::print("{:<27}", "ms per batch of");
    for (const std::int64_t batch : batches_) fmt::print(" {:>9} {:>7}", batch, "times");
    fmt::print("\n");
    for (const InferenceRow& row : rows) {
      if (row.batch != batches_.front()) continue;
      fmt::print("{:<27}", row.method);
      for (const InferenceRow& other : rows) {
        if (other.method != row.method) continue;
        fmt::print(" {:>9.2f} {:>7.2f}", ms_of(other), ms_of(single_of(rows, other.batch)) / ms_of(other));
      }
      fmt::print("\n");
    }
  }

  static constexpr const char* kOneThread = "one replica, 1 thread";
  std::string model_ = "bert-mini";
  std::vector<std::int64_t> batches_ = {32, 64, 128};
  std::vector<std::string> devices_;
  std::string peer_;
  std::string python_ = "/usr/bin/python3";
  std::int64_t sequence_length_ = 0;
  int rounds_ = 5;
  int steps_ = 8;
  bool json_ = false;
  ProgressLine progress_;
};

}  // namespace

std::unique_ptr<Benchmark> make_bench_inference() { return std::make_unique<BenchInference>(); }

}  // namespace lockstep
