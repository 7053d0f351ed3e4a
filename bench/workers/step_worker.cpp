// One rank of `lockstep bench step`: trains on one random batch and measures each step. Rank 0 prints one JSON object.
#include <torch/torch.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/measure/product_bound.h"
#include "bench/workers/bench_ranks.h"
#include "bench/workers/host_figures.h"
#include "bench/workers/operator_profile.h"
#include "bench/workers/run_worker.h"
#include "bench/workers/timed_batches.h"
#include "bench/workers/trace_cost.h"
#include "bench/workers/workers.h"
#include "lockstep/base/error.h"
#include "lockstep/comm/local_device.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/comm/trace.h"
#include "lockstep/detail/tensor/autocast.h"
#include "lockstep/models/registry.h"
#include "lockstep/optim/adam.h"
#include "lockstep/parallel/deferred.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/tensor/bf16_forward.h"

namespace ls = lockstep;

namespace lockstep::step_worker {
namespace {

struct Arguments {
  std::string model;
  std::string engine;
  std::int64_t batch = 1;
  std::int64_t seq = 0;
  int steps = 1;
  std::string mode = "fused";
  std::string dtype = "fp32";
  bool memory = false;
  bool profile = false;
  std::string device = "cpu";
};

// "mlp" means the one that is large enough to need synchronisation.
std::shared_ptr<ls::Model> model_of(const std::string& model) {
  if (std::filesystem::is_directory(model)) return ls::make_model_of_folder(model);
  return ls::make_model(model == "mlp" ? "mlp-wide" : model);
}

std::int64_t parameters_of(const torch::nn::Module& model) {
  std::int64_t count = 0;
  for (const torch::Tensor& parameter : model.parameters()) count += parameter.numel();
  return count;
}

// What the figures depend on beside the model.
std::string details(const Arguments& args) {
  std::string precision = "highest";
  switch (at::globalContext().float32MatmulPrecision()) {
    case at::Float32MatmulPrecision::HIGHEST:
      break;
    case at::Float32MatmulPrecision::HIGH:
      precision = "high";
      break;
    case at::Float32MatmulPrecision::MEDIUM:
      precision = "medium";
      break;
  }
  return std::string("LibTorch ") + TORCH_VERSION + ", " + std::to_string(at::get_num_threads()) + " thread(s), " +
         (args.dtype == "bf16" ? "autocast in bf16" : "fp32 products: " + precision);
}

int stage_of(const Arguments& args) {
  if (args.mode == "stage-3" || args.mode == "stage-3-kept") return 3;
  return args.mode == "stage-2" ? 2 : 1;
}

// All modes make the same update.
std::unique_ptr<torch::optim::Optimizer> make_optimizer(const Arguments& args, ls::DistributedDataParallelBase& ddp,
                                                        const std::vector<torch::Tensor>& parameters) {
  const torch::optim::AdamOptions options(1e-4);
  if (args.mode == "libtorch") return std::make_unique<torch::optim::Adam>(parameters, options);
  auto optimizer = std::make_unique<ls::Adam>(parameters, options);
  ls::FuseOptions how;
  how.stage = stage_of(args);
  how.reshard_after_forward = args.mode != "stage-3-kept";
  if (how.stage > 1 || args.mode.rfind("fused", 0) == 0) ddp.fuse(*optimizer, how);
  if (args.mode == "alone" || args.mode == "barrier") ddp.register_comm_hook(ls::noop_hook());
  return optimizer;
}

// Losses are computed in fp32, as Trainer does.
template <typename Wrapper>
at::Tensor output_of(Wrapper& ddp, torch::nn::Module& model, const ls::Batch& batch, const Arguments& args) {
  if (args.dtype == "bf16" && args.mode != "fused-casts" && args.device == "cpu") {
    const ls::Bf16Forward bf16(model);
    return ddp(batch).to(at::kFloat);
  }
  const auto type = args.device == "cuda" ? c10::DeviceType::CUDA : c10::DeviceType::CPU;
  const ls::Autocast autocast(type, at::kBFloat16, args.dtype == "bf16");
  return ddp(batch).to(at::kFloat);
}

// A trace of all steps, whose file is removed at the end.
class BenchTrace {
 public:
  explicit BenchTrace(const Arguments& args) {
    if (args.mode != "fused-traced" && args.mode != "unfused-traced") return;
    trace_ = std::make_unique<ls::Trace>(ls::TraceOptions{file_, 1, 2 * args.steps + 10});
  }
  // @param steps  that were traced. @return  what it cost, for rank 0's line; empty without a trace
  std::string finish(int steps, double step_ms) {
    if (!trace_) return "";
    trace_->finish();
    const double ns = ls::ns_of_trace_event();
    if (ls::get_rank() != 0) return "";
    const double events = static_cast<double>(ls::events_in_trace(file_)) / ls::get_world_size() / steps;
    std::filesystem::remove(file_);
    return "; " + ls::trace_cost_text(events, ns, step_ms);
  }

 private:
  std::string file_ = std::filesystem::temp_directory_path() / ("lockstep-bench-" + std::to_string(::getpid()));
  std::unique_ptr<ls::Trace> trace_;
};

// The times of operators in as many steps as were measured before; all ranks run them. Null unless it was asked for.
template <typename Step>
nlohmann::ordered_json profile_of(const Arguments& args, const Step& step) {
  if (!args.profile) return nullptr;
  ls::OperatorProfile profile;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < args.steps; ++i) step();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  profile.stop();
  ls::default_group()->barrier();  // all ranks multiply at once, as they do in a step
  nlohmann::ordered_json report = profile.report(args.steps, took.count() / args.steps);
  const ls::ProductBound bound = ls::measure_product_bound();
  const std::optional<double> gflops = args.dtype == "bf16" ? bound.bf16_gflops : bound.fp32_gflops;
  report["registers_gflops"] = gflops ? nlohmann::ordered_json(*gflops) : nlohmann::ordered_json();
  return report;
}

c10::Device device_of(const Arguments& args) {
  const c10::Device device = args.device == "cpu" ? c10::Device(c10::kCPU) : ls::use_local_device();
  if (args.device != "cpu" && device.is_cpu()) {
    throw ls::Error("this process sees no CUDA device", "--device cuda", "lockstep env says why");
  }
  return device;
}

void run(const Arguments& args) {
  ls::init_bench_rank(args.engine);
  ls::HeldMemory held;
  // In stage 3 no rank ever holds the whole model.
  const auto model = stage_of(args) == 3 ? ls::deferred([&] { return model_of(args.model); }) : model_of(args.model);
  const c10::Device device = device_of(args);
  if (!device.is_cpu()) model->to(device);
  ls::DistributedDataParallelOptions options;
  const bool computes_bf16 = args.dtype == "bf16" && args.mode != "fused-casts" && device.is_cpu();
  if (computes_bf16) options.compute_dtype = at::kBFloat16;
  if (stage_of(args) > 1) options.bucket_cap_mb = 2;  // as Trainer
  ls::DistributedDataParallel ddp(model, options);
  const auto optimizer = make_optimizer(args, ddp, model->parameters());
  ls::RandomBatchOptions shape;
  shape.size = args.batch;
  shape.sequence_length = args.seq;
  ls::Batch batch = model->random_batch(shape);
  for (auto& [name, tensor] : batch) tensor = tensor.to(device);
  const auto step = [&] {
    for (auto& parameter : model->parameters()) parameter.mutable_grad().reset();  // as set_to_none does
    model->loss(output_of(ddp, *model, batch, args), batch).mean().backward();
    optimizer->step();
    if (args.mode == "barrier") ls::default_group()->barrier();
    if (!device.is_cpu()) torch::cuda::synchronize(device.index());
  };
  ls::MeasuredSteps measured;
  measured.warm_up = std::max(3, args.steps / 5);
  measured.most = args.steps;
  ls::TimedBatches batches(batch, measured);
  BenchTrace trace(args);
  if (args.memory) held.watch();
  const std::int64_t sent_before = ls::bytes_sent_by_host();
  for ([[maybe_unused]] const ls::Batch& same : batches) step();
  const std::string cost = trace.finish(batches.steps() + measured.warm_up, batches.median_ms());
  const double sent =
      static_cast<double>(ls::bytes_sent_by_host() - sent_before) / (batches.steps() + measured.warm_up);
  const double memory = ls::largest_of_ranks(batches.memory().peak);
  const double held_by_all = ls::sum_of_ranks(held.stop());
  const nlohmann::ordered_json profile = profile_of(args, step);
  if (ls::get_rank() == 0) {
    std::printf(
        "{\"median_ms\": %.6f, \"rss_mib\": %.1f, \"held_mib\": %.1f, \"sent_bytes\": %.0f, \"parameters\": %lld, "
        "\"details\": \"%s\", \"profile\": %s}\n",
        batches.median_ms(), memory, held_by_all, sent, static_cast<long long>(parameters_of(*model)),
        (details(args) + cost).c_str(), profile.dump().c_str());
  }
  ls::destroy_process_group();
}

}  // namespace
}  // namespace lockstep::step_worker

int lockstep::run_step_worker(int argc, char** argv) {
  using namespace step_worker;
  Arguments args;
  CLI::App app("One rank of `lockstep bench step`.");
  app.add_option("--model", args.model)->required();
  app.add_option("--engine", args.engine);
  app.add_option("--batch", args.batch)->required();
  app.add_option("--seq", args.seq);
  app.add_option("--steps", args.steps)->required();
  app.add_option("--mode", args.mode)
      ->check(CLI::IsMember({"fused", "fused-casts", "stage-2", "stage-3", "stage-3-kept", "unfused", "fused-traced",
                             "unfused-traced", "libtorch", "alone", "barrier"}));
  app.add_flag("--memory", args.memory);
  app.add_option("--dtype", args.dtype)->check(CLI::IsMember({"fp32", "bf16"}));
  app.add_flag("--profile", args.profile);
  app.add_option("--device", args.device)->check(CLI::IsMember({"cpu", "cuda"}));
  return ls::run_worker(app, argc, argv, [&] { run(args); });
}
