// `lockstep trace`: shows the steps of one training iteration of DataParallel, with and without gathered outputs.
#include <fmt/format.h>
#include <fmt/ostream.h>
#include <torch/cuda.h>
#include <torch/utils.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/base/text/size_text.h"
#include "lockstep/models/registry.h"
#include "lockstep/optim/adam.h"
#include "lockstep/replicas/parallel_loss.h"
#include "tools/frame/replica_flag.h"
#include "tools/frame/sequence_flag.h"
#include "tools/frame/subcommand.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;
using Parallel = DataParallel<std::shared_ptr<Model>>;

struct ModeTrace {
  std::string mode;  // "data-parallel" or "parallel-loss"
  std::vector<TraceSpan> spans;
  double loss = 0;
};

class TraceCommand : public Subcommand {
 public:
  void add(CLI::App& app) override {
    std::vector<std::string> names;
    for (const auto& info : registered_models()) names.push_back(info.name);
    app.add_option("--model", model_, "a shipped model")->capture_default_str()->check(CLI::IsMember(names));
    app.add_option("--devices", devices_,
                   "devices of the replicas, e.g. cpu:0,cpu:1; default: cpu:0,cpu:1, or all CUDA devices")
        ->delimiter(',')
        ->check(replica_device_name(/*measures=*/false));
    app.add_option("--output-device", output_device_, "device on which data-parallel gathers; default: the first")
        ->check(replica_device_name(/*measures=*/false));
    app.add_option("--mode", mode_,
                   "data-parallel: gather outputs and compute the loss on one device; parallel-loss: compute the loss "
                   "on each device")
        ->capture_default_str()
        ->check(CLI::IsMember({"both", "data-parallel", "parallel-loss"}));
    app.add_option("--batch", batch_, "samples of the whole batch")->capture_default_str()->check(CLI::PositiveNumber);
    app.add_option("--seq", sequence_length_, "tokens of each text, for text models")->check(CLI::PositiveNumber);
    app.add_option("--warmup", warmup_, "steps to run before the one that is shown")
        ->capture_default_str()
        ->check(CLI::NonNegativeNumber);
    app.add_option("--seed", seed_, "seed of weights and batch")->capture_default_str();
    app.add_option("--output", output_, "write a trace to this file; ui.perfetto.dev shows it");
    app.add_flag("--json", json_, "print one JSON object");
    show_examples(app, {"lockstep trace --model bert-tiny --batch 8 --seq 32",
                        "lockstep trace --model gpt2 --devices cpu:0,cpu:1 --mode parallel-loss --output trace.json"});
  }

  int run(const CommandStreams& streams) override {
    std::vector<ModeTrace> traces;
    for (const char* mode : {"data-parallel", "parallel-loss"}) {
      if (mode_ == "both" || mode_ == mode) traces.push_back(trace_mode(mode));
    }
    if (!output_.empty()) write(traces);
    json_ ? print_json(traces, streams.out) : print_tables(traces, streams.out);
    return 0;
  }

 private:
  std::vector<ReplicaDevice> replica_devices() const {
    if (!devices_.empty()) return {devices_.begin(), devices_.end()};
    if (torch::cuda::is_available()) return all_replica_devices();
    return {"cpu:0", "cpu:1"};
  }

  ModeTrace trace_mode(const std::string& mode) const {
    torch::manual_seed(seed_);
    const auto model = make_model(model_);
    check_sequence_flag(*model, model_, sequence_length_);
    RandomBatchOptions options;
    options.size = batch_;
    options.sequence_length = sequence_length_;
    options.seed = seed_;
    const Batch batch = model->random_batch(options);
    const auto devices = replica_devices();
    for (const ReplicaDevice& device : devices) device.require_present();
    model->to(devices.front().tensor_device());
    std::optional<ReplicaDevice> output;
    if (!output_device_.empty()) output.emplace(output_device_);
    Parallel dp(model, devices, output);
    Adam optimizer(model->parameters(), torch::optim::AdamOptions(1e-4));
    StepTrace trace;
    dp.set_trace(&trace);
    ModeTrace result{mode, {}, 0};
    for (int step = 0; step <= warmup_; ++step) {
      trace.clear();
      result.loss = make_step(mode, dp, batch, optimizer, trace);
    }
    result.spans = in_reading_order(trace.spans());
    double start = result.spans.front().begin_s;
    for (const TraceSpan& span : result.spans) start = std::min(start, span.begin_s);
    for (TraceSpan& span : result.spans) {
      span.begin_s -= start;
      span.end_s -= start;
    }
    return result;
  }

  // Groups spans of several devices by step and device, in the order in which each step began on any device. If a
  // device takes a step again, a new group begins.
  static std::vector<TraceSpan> in_reading_order(const std::vector<TraceSpan>& spans) {
    using Turn = std::pair<std::string, int>;  // of a step
    std::map<std::pair<std::string, std::string>, int> turns;
    std::map<Turn, double> begins;
    std::vector<std::tuple<double, Turn, std::string, std::size_t>> order;
    for (std::size_t i = 0; i < spans.size(); ++i) {  // in order of time
      const Turn turn(spans[i].name, turns[{spans[i].name, spans[i].device}]++);
      order.emplace_back(begins.emplace(turn, spans[i].begin_s).first->second, turn, spans[i].device, i);
    }
    std::sort(order.begin(), order.end());
    std::vector<TraceSpan> result;
    for (const auto& entry : order) result.push_back(spans[std::get<3>(entry)]);
    return result;
  }

  static double make_step(const std::string& mode, Parallel& dp, const Batch& batch, Adam& optimizer,
                          StepTrace& trace) {
    optimizer.zero_grad();
    const at::Tensor loss =
        mode == "data-parallel" ? loss_of_gathered(dp, batch, trace) : loss_of_each(dp, batch, trace);
    make_backward(loss, dp, trace);
    {
      const TraceScope scope(&trace, "update", dp.device_ids().front().name());
      optimizer.step();
    }
    return loss.item<double>();
  }

  // With one chunk there are no replicas to show.
  static void make_backward(const at::Tensor& loss, Parallel& dp, StepTrace& trace) {
    const auto begin = StepTrace::Clock::now();
    loss.backward();
    const auto end = StepTrace::Clock::now();
    const auto spans = trace.spans();
    const auto is_backward = [](const TraceSpan& span) { return span.name == "backward"; };
    if (std::none_of(spans.begin(), spans.end(), is_backward)) {
      trace.add("backward", dp.device_ids().front().name(), begin, end, 0);
    }
  }

  static at::Tensor loss_of_gathered(Parallel& dp, const Batch& batch, StepTrace& trace) {
    const at::Tensor output = dp(batch);
    const TraceScope scope(&trace, "loss", dp.output_device().name());
    Batch labels = batch;
    for (auto& [name, tensor] : labels) tensor = tensor.to(output.device());
    return dp.module()->loss(output, labels).mean();
  }

  static at::Tensor loss_of_each(Parallel& dp, const Batch& batch, StepTrace& trace) {
    return parallel_loss(
               dp,
               [&](const std::shared_ptr<Model>& replica, const Batch& chunk) {
                 const at::Tensor output = replica->forward(chunk);
                 const TraceScope scope(&trace, "loss", device_of(dp, replica).name());
                 return replica->loss(output, chunk);
               },
               batch)
        .mean();
  }

  static const ReplicaDevice& device_of(Parallel& dp, const std::shared_ptr<Model>& replica) {
    std::size_t index = 0;
    while (index + 1 < dp.replicas().size() && dp.replicas()[index] != replica) ++index;
    return dp.device_ids()[index];
  }

  void write(const std::vector<ModeTrace>& traces) const {
    std::vector<TraceSpan> all;
    double begin_s = 0;
    for (const ModeTrace& trace : traces) {
      double end_s = begin_s;
      for (TraceSpan span : trace.spans) {
        span.begin_s += begin_s;
        span.end_s += begin_s;
        span.name = traces.size() > 1 ? trace.mode + ": " + span.name : span.name;
        end_s = std::max(end_s, span.end_s);
        all.push_back(std::move(span));
      }
      begin_s = end_s + 0.1 * (end_s - begin_s);  // one mode after the other, with a gap
    }
    write_file_atomically(output_, chrome_trace(all));
  }

  static double length_s(const ModeTrace& trace) {
    double end_s = 0;
    for (const TraceSpan& span : trace.spans) end_s = std::max(end_s, span.end_s);
    return end_s;
  }

  void print_tables(const std::vector<ModeTrace>& traces, std::ostream& to) const {
    for (const ModeTrace& trace : traces) {
      fmt::print(to, "{}: {}, batch {}, step {}: {:.2f} ms, loss {:.4f}\n", trace.mode, model_, batch_, warmup_ + 1,
                 1e3 * length_s(trace), trace.loss);
      fmt::print(to, "  {:<10} {:<8} {:>10} {:>10} {:>10}\n", "step", "device", "begin ms", "ms", "bytes");
      for (const TraceSpan& span : trace.spans) {
        fmt::print(to, "  {:<10} {:<8} {:>10.3f} {:>10.3f} {:>10}\n", span.name, span.device, 1e3 * span.begin_s,
                   1e3 * (span.end_s - span.begin_s), size_text(static_cast<std::uint64_t>(span.bytes)));
      }
      fmt::print(to, "\n");
    }
    if (!output_.empty()) fmt::print(to, "written: {}\n", output_);
  }

  void print_json(const std::vector<ModeTrace>& traces, std::ostream& to) const {
    Json out{{"model", model_}, {"batch", batch_}, {"modes", Json::array()}};
    for (const ModeTrace& trace : traces) {
      Json spans = Json::array();
      for (const TraceSpan& span : trace.spans) {
        spans.push_back({{"step", span.name},
                         {"device", span.device},
                         {"begin_ms", 1e3 * span.begin_s},
                         {"ms", 1e3 * (span.end_s - span.begin_s)},
                         {"bytes", span.bytes}});
      }
      out["modes"].push_back(
          {{"mode", trace.mode}, {"loss", trace.loss}, {"ms", 1e3 * length_s(trace)}, {"spans", std::move(spans)}});
    }
    fmt::print(to, "{}\n", out.dump(2));
  }

  std::string model_ = "bert-tiny";
  std::vector<std::string> devices_;
  std::string output_device_;
  std::string mode_ = "both";
  std::string output_;
  std::int64_t batch_ = 8;
  std::int64_t sequence_length_ = 0;
  int warmup_ = 3;
  std::uint64_t seed_ = 0;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> make_trace() { return std::make_unique<TraceCommand>(); }

}  // namespace lockstep
