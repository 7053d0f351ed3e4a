// `lockstep bench data-parallel`: training steps on one replica and on several, the wrapper's own cost, and the memory
// of the other replicas.
#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "bench/measure/baseline_threads.h"
#include "bench/measure/benchmark.h"
#include "bench/measure/measurement.h"
#include "lockstep/base/processor/heap.h"
#include "lockstep/base/processor/process_memory.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/models/registry.h"
#include "lockstep/optim/adam.h"
#include "lockstep/replicas/parallel_loss.h"
#include "tools/frame/progress_line.h"
#include "tools/frame/replica_flag.h"
#include "tools/frame/sequence_flag.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;
using Parallel = DataParallel<std::shared_ptr<Model>>;

struct TrainingRow {
  std::string method;
  std::vector<double> step_ms;  // one per round
};

double resident_mib() { return static_cast<double>(process_memory().resident) / (1 << 20); }

double mebibytes_of(torch::nn::Module& module) {
  double bytes = 0;
  for (const auto& parameter : module.parameters()) bytes += static_cast<double>(parameter.nbytes());
  return bytes / 1024 / 1024;
}

// A module without computation, which shows the cost of everything around it.
struct EmptyModuleImpl : torch::nn::Cloneable<EmptyModuleImpl> {
  EmptyModuleImpl() { reset(); }
  void reset() override { weight = register_parameter("weight", torch::zeros({1})); }
  at::Tensor forward(const at::Tensor& x) { return x; }
  at::Tensor weight;
};
TORCH_MODULE(EmptyModule);

class BenchDataParallel : public Benchmark {
 public:
  void add(CLI::App& app) override {
    std::vector<std::string> names;
    for (const auto& info : registered_models()) names.push_back(info.name);
    app.add_option("--model", model_, "a shipped model")->capture_default_str()->check(CLI::IsMember(names));
    app.add_option("--batch", batch_, "samples of the batch over all replicas")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    app.add_option("--seq", sequence_length_, "tokens of each text, for text models")->check(CLI::PositiveNumber);
    app.add_option("--devices", devices_, "of the replicas, e.g. cpu:0,cpu:1; default: all")
        ->delimiter(',')
        ->check(replica_device_name());
    app.add_option("--rounds", rounds_, "turns that each method gets")->capture_default_str()->check(CLI::Range(1, 99));
    app.add_option("--steps", steps_, "steps in a turn")->capture_default_str()->check(CLI::PositiveNumber);
    app.add_flag("--memory", memory_,
                 "measure instead what the other replicas add to the time of one with its share of the batch");
    app.add_flag("--json", json_, "print one JSON object");
    show_examples(app, {"lockstep bench data-parallel --model bert-mini --batch 32 --seq 128",
                        "lockstep bench data-parallel --model bert-base --batch 2 --seq 128 --memory"});
  }

  int run() override {
    keep_freed_memory();
    torch::manual_seed(0);
    model_object_ = make_model(model_);
    check_sequence_flag(*model_object_, model_, sequence_length_);
    model_object_->train();
    RandomBatchOptions options;
    options.size = batch_;
    options.sequence_length = sequence_length_;
    whole_ = model_object_->random_batch(options);
    const auto devices = replica_devices();
    for (const ReplicaDevice& device : devices) device.require_present();
    model_object_->to(devices.front().tensor_device());
    for (auto& [name, tensor] : whole_) tensor = tensor.to(devices.front().tensor_device());
    return memory_ ? measure_memory() : measure_time();
  }

 private:
  std::vector<ReplicaDevice> replica_devices() const {
    if (devices_.empty()) return all_replica_devices();
    return {devices_.begin(), devices_.end()};
  }

  static at::Tensor loss_of(Parallel& dp, const Batch& batch) {
    const auto loss = [](auto& replica, const Batch& chunk) { return replica->loss(replica->forward(chunk), chunk); };
    return parallel_loss(dp, loss, batch).mean();
  }

  int measure_time() {
    Parallel dp(model_object_, replica_devices());
    Adam optimizer(model_object_->parameters(), torch::optim::AdamOptions(1e-4));
    const auto count = dp.replicas().size();
    std::vector<TrainingRow> rows{{kOneThread, {}}};
    if (openmp_threads() > 1) rows.push_back({fmt::format("one replica, {} threads", openmp_threads()), {}});
    rows.push_back({fmt::format("{} replicas, parallel loss", count), {}});
    rows.push_back({fmt::format("{} replicas, DataParallel", count), {}});
    for (int round = 0; round < rounds_; ++round) {
      for (TrainingRow& row : rows) {
        progress_.show(fmt::format("round {} of {}: {}", round + 1, rounds_, row.method));
        row.step_ms.push_back(turn_ms(dp, optimizer, row.method));
      }
    }
    progress_.show("");
    report(dp, rows, overhead_us());
    return 0;
  }

  double turn_ms(Parallel& dp, Adam& optimizer, const std::string& method) const {
    const bool is_single = method.find("one replica") == 0;
    const BaselineThreads threads(method == kOneThread ? 1 : 0);
    const auto step = [&] {
      optimizer.zero_grad();
      at::Tensor loss;
      if (is_single) {
        loss = dp.module()->loss(dp.module()->forward(whole_), whole_).mean();
      } else if (method.find("loss") != std::string::npos) {
        loss = loss_of(dp, whole_);
      } else {
        loss = dp.module()->loss(dp(whole_), whole_).mean();
      }
      loss.backward();
      optimizer.step();
    };
    step();
    std::vector<double> times;
    for (int i = 0; i < steps_; ++i) times.push_back(milliseconds(step));
    return median(times);
  }

  template <typename Function>
  static double milliseconds(Function&& function) {
    const auto begin = std::chrono::steady_clock::now();
    function();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  }

  // Scatter, apply and gather around a module without computation: the median of many calls.
  double overhead_us() const {
    DataParallel<EmptyModule> dp(EmptyModule(), replica_devices());
    const at::Tensor x = torch::zeros({static_cast<std::int64_t>(2 * dp.replicas().size()), 2});
    std::vector<double> times;
    for (int i = 0; i < kOverheadCalls; ++i) times.push_back(1e3 * milliseconds([&] { dp(x); }));
    return median(times);
  }

  // Measures one replica with its share of the batch, then all replicas with the whole batch.
  int measure_memory() {
    const auto devices = replica_devices();
    const auto count = static_cast<std::int64_t>(devices.size());
    Batch share;
    for (const auto& [name, tensor] : whole_) share[name] = tensor.slice(0, 0, (batch_ + count - 1) / count);
    for (int i = 0; i < steps_; ++i) {
      model_object_->zero_grad();
      model_object_->loss(model_object_->forward(share), share).mean().backward();
    }
    const double one_mib = resident_mib();
    Parallel dp(model_object_, devices);
    double all_mib = 0;
    for (int i = 0; i < steps_; ++i) {
      model_object_->zero_grad();
      loss_of(dp, whole_).backward();
      all_mib = std::max(all_mib, resident_mib());
    }
    const double weights_mib = mebibytes_of(*model_object_);
    const double each_mib = (all_mib - one_mib) / static_cast<double>(std::max<std::int64_t>(1, count - 1));
    if (json_) {
      const Json out{{"model", model_},
                     {"batch", batch_},
                     {"replicas", count},
                     {"weights_mib", weights_mib},
                     {"one_replica_mib", one_mib},
                     {"all_replicas_mib", all_mib},
                     {"each_further_replica_mib", each_mib}};
      fmt::print("{}\n", out.dump(2));
    } else {
      fmt::print("{}: weights {:.0f} MiB, gradients as much\n", model_, weights_mib);
      fmt::print("one replica, its share of batch {}: {:.0f} MiB resident\n", batch_, one_mib);
      fmt::print("{} replicas: {:.0f} MiB; {:.0f} MiB for each further replica\n", count, all_mib, each_mib);
    }
    return 0;
  }

  void report(Parallel& dp, const std::vector<TrainingRow>& rows, double overhead_us) const {
    const auto speed = [&](const TrainingRow& row) { return median(rows.front().step_ms) / median(row.step_ms); };
    if (json_) {
      Json out{{"model", model_}, {"batch", batch_}, {"overhead_us", overhead_us}, {"rows", Json::array()}};
      for (const TrainingRow& row : rows) {
        out["rows"].push_back({{"method", row.method}, {"step_ms", median(row.step_ms)}, {"speedup", speed(row)}});
      }
      fmt::print("{}\n", out.dump(2));
      return;
    }
    fmt::print(
        "{}, batch {}, {} replicas with {} thread(s) each, {} rounds of {} steps, medians; {} cores, load {:.2f}\n\n",
        model_, batch_, dp.replicas().size(), dp.replicas().set().threads_per_replica(), rounds_, steps_,
        available_cores(), load_average());
    fmt::print("{:<27} {:>10} {:>10} {:>7}\n", "training step", "ms", "samples/s", "times");
    for (const TrainingRow& row : rows) {
      fmt::print("{:<27} {:>10.1f} {:>10.1f} {:>7.2f}\n", row.method, median(row.step_ms),
                 1e3 * static_cast<double>(batch_) / median(row.step_ms), speed(row));
    }
    fmt::print("\nscatter, apply and gather around an empty module: {:.1f} us\n", overhead_us);
  }

  static constexpr const char* kOneThread = "one replica, 1 thread";
  static constexpr int kOverheadCalls = 2000;
  std::string model_ = "bert-mini";
  std::vector<std::string> devices_;
  std::shared_ptr<Model> model_object_;
  Batch whole_;
  std::int64_t batch_ = 32;
  std::int64_t sequence_length_ = 0;
  int rounds_ = 5;
  int steps_ = 4;
  bool memory_ = false;
  bool json_ = false;
  ProgressLine progress_;
};

}  // namespace

std::unique_ptr<Benchmark> make_bench_data_parallel() { return std::make_unique<BenchDataParallel>(); }

}  // namespace lockstep
