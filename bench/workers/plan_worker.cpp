// One rank of the measurements of `lockstep plan` on one host: a step by its parts, or the cost of an engine's
// all-reduce. Rank 0 prints one JSON object.
#include <sys/resource.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "bench/workers/bench_ranks.h"
#include "bench/workers/run_worker.h"
#include "bench/workers/workers.h"
#include "lockstep/base/error.h"
#include "lockstep/base/seconds_since.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/detail/tensor/autocast.h"
#include "lockstep/models/registry.h"
#include "lockstep/optim/adam.h"
#include "lockstep/parallel/distributed_data_parallel.h"

namespace ls = lockstep;
using Json = nlohmann::ordered_json;

namespace lockstep::plan_worker {
namespace {

struct Arguments {
  std::string measure = "model";
  std::string model;
  std::string engine;
  std::int64_t batch = 1;
  std::int64_t seq = 0;
  int steps = 10;
  bool bf16 = false;
  std::vector<std::int64_t> bytes;
};

using Clock = std::chrono::steady_clock;
using ls::seconds_since;

// A training step, measured by its parts.
class Step {
 public:
  Step(const Arguments& args, bool communicate)
      : bf16_(args.bf16),
        model_(ls::make_model(args.model)),
        ddp_(model_),
        optimizer_(model_->parameters(), torch::optim::AdamOptions(1e-4)) {
    // Buckets are filled, but nothing is sent.
    if (!communicate) ddp_.register_comm_hook(ls::noop_hook());
    ls::RandomBatchOptions shape;
    shape.size = args.batch;
    shape.sequence_length = args.seq;
    batch_ = model_->random_batch(shape);
    for (const auto& parameter : model_->parameters()) follow(parameter);
  }

  void run() {
    for (auto& parameter : model_->parameters()) parameter.mutable_grad().reset();  // as set_to_none does
    const auto start = Clock::now();
    const torch::Tensor loss = [&] {
      const ls::Autocast autocast(c10::DeviceType::CPU, at::kBFloat16, bf16_);
      return model_->loss(ddp_(batch_), batch_).mean();
    }();
    forward_.push_back(seconds_since(start));
    backward_began_ = Clock::now();
    loss.backward();
    backward_.push_back(seconds_since(backward_began_));
    const auto update = Clock::now();
    optimizer_.step();
    update_.push_back(seconds_since(update));
    all_.push_back(seconds_since(start));
  }

  void forget() {
    for (auto* times : {&forward_, &backward_, &update_, &all_}) times->clear();
    for (auto& gradient : gradients_) gradient.ready.clear();
  }

  double step_s() const { return ls::median_of_ranks(all_); }

  Json profile() const {
    Json result{{"forward_s", ls::median_of_ranks(forward_)},
                {"backward_s", ls::median_of_ranks(backward_)},
                {"update_s", ls::median_of_ranks(update_)},
                {"gradients", Json::array()}};
    for (const Gradient& gradient : gradients_) {
      const double never = backward_.empty() ? 0 : ls::median(backward_);
      const double ready_s = gradient.ready.empty() ? never : ls::median(gradient.ready);
      result["gradients"].push_back({{"bytes", gradient.bytes}, {"ready_s", ls::largest_of_ranks(ready_s)}});
    }
    return result;
  }

 private:
  using Accumulator = decltype(torch::autograd::impl::grad_accumulator(std::declval<const torch::Tensor&>()));
  struct Gradient {
    std::int64_t bytes;
    std::vector<double> ready;
    Accumulator accumulator;
  };

  // Runs after DistributedDataParallel's own hook, so that the time includes copying the gradient into its bucket.
  void follow(const torch::Tensor& parameter) {
    if (!parameter.requires_grad()) return;
    using torch::autograd::variable_list;
    const std::size_t index = gradients_.size();
    gradients_.push_back(
        {static_cast<std::int64_t>(parameter.nbytes()), {}, torch::autograd::impl::grad_accumulator(parameter)});
    gradients_.back().accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
        [this, index](const variable_list& outputs, const variable_list&) {
          gradients_[index].ready.push_back(seconds_since(backward_began_));
          return outputs;
        }));
  }

  const bool bf16_;
  std::shared_ptr<ls::Model> model_;
  ls::DistributedDataParallel<std::shared_ptr<ls::Model>> ddp_;
  ls::Adam optimizer_;
  ls::Batch batch_;
  Clock::time_point backward_began_;
  std::vector<double> forward_, backward_, update_, all_;
  std::vector<Gradient> gradients_;
};

void run_steps(Step& step, int count) {
  for (int i = -std::max(2, count / 5); i < count; ++i) {
    if (i == 0) step.forget();
    ls::default_group()->barrier();
    step.run();
  }
}

// The cost of each hook for the computing thread, without other ranks.
Json hook_costs() {
  constexpr std::int64_t kNumbers = 1 << 20;
  const auto alone = ls::default_group()->split(ls::get_rank());
  Json result;
  for (const char* name : {"fp16", "bf16", "int8"}) {
    const auto hook = ls::make_communication_hook(name);
    ls::GradBucket bucket;
    bucket.is_last = true;
    bucket.buffer = torch::randn({kNumbers});
    bucket.gradients = {bucket.buffer};
    std::vector<double> starts, finishes;
    for (int i = 0; i < 9; ++i) {
      auto begin = Clock::now();
      const auto work = hook->start(bucket, *alone);
      starts.push_back(seconds_since(begin));
      if (work) work->wait();
      begin = Clock::now();
      hook->finish(bucket, *alone);
      finishes.push_back(seconds_since(begin));
    }
    const double bytes = static_cast<double>(bucket.buffer.nbytes());
    result[name] = {{"start_byte_s", ls::median_of_ranks(starts) / bytes},
                    {"finish_byte_s", ls::median_of_ranks(finishes) / bytes}};
  }
  return result;
}

// Reduce-scatter and all-gather in this host's shared memory.
double local_byte_s() {
  if (ls::get_world_size() == 1) return 0;
  const std::int64_t part = (1 << 20) / ls::get_world_size();
  torch::Tensor whole = torch::ones({part * ls::get_world_size()}), mine = torch::empty({part});
  std::vector<double> times;
  for (int i = 0; i < 9; ++i) {
    ls::default_group()->barrier();
    const auto start = Clock::now();
    ls::default_group()->reduce_scatter(mine, whole);
    ls::default_group()->all_gather(whole, mine);
    times.push_back(seconds_since(start));
  }
  return ls::median_of_ranks(times) / static_cast<double>(whole.nbytes());
}

Json measure_model(const Arguments& args) {
  Json result;
  {
    Step step(args, /*communicate=*/false);
    run_steps(step, args.steps);
    result = step.profile();
    result["host_step_s"] = step.step_s();
  }
  if (ls::get_world_size() > 1 && args.engine.empty()) {
    Step step(args, /*communicate=*/true);
    run_steps(step, args.steps);
    result["host_step_s"] = step.step_s();
  }
  result["hooks"] = hook_costs();
  result["local_byte_s"] = args.engine.empty() ? local_byte_s() : 0;
  return result;
}

// Rewords LibTorch's own errors, for example if the batch needs more memory than there is.
Json measure_within_memory(const Arguments& args) {
  try {
    return measure_model(args);
  } catch (const c10::Error& error) {
    const std::string what = error.what_without_backtrace();
    throw ls::Error("a step of " + args.model + " with --batch " + std::to_string(args.batch) +
                        " failed: " + what.substr(0, what.find('\n')),
                    "rank " + std::to_string(ls::get_rank()) + ", while it was measured",
                    "give a smaller --batch" + std::string(args.seq > 0 ? " or --seq" : "") +
                        " if this host does not have the memory");
  }
}

double processor_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

Json measure_engine(const Arguments& args) {
  Json result = Json::array();
  for (const std::int64_t bytes : args.bytes) {
    torch::Tensor tensor = torch::zeros({bytes / 4});
    std::vector<double> times;
    double processor_s = 0;
    constexpr int kWarmUp = 3, kMeasured = 20;
    for (int i = -kWarmUp; i < kMeasured; ++i) {
      ls::default_group()->barrier();
      if (i == 0) processor_s = processor_seconds();
      const auto start = Clock::now();
      ls::default_group()->all_reduce(tensor);
      if (i >= 0) times.push_back(seconds_since(start));
    }
    torch::Tensor all = torch::full({1}, (processor_seconds() - processor_s) / kMeasured, torch::kDouble);
    ls::default_group()->all_reduce(all, ls::ReduceOp::Avg);
    result.push_back({{"ranks", ls::get_world_size()},
                      {"bytes", bytes},
                      {"seconds", ls::median_of_ranks(times)},
                      {"processor_s", all.item<double>()}});
  }
  return Json{{"all_reduce", result}};
}

void run(const Arguments& args) {
  ls::init_bench_rank(args.engine);
  const Json result = args.measure == "model" ? measure_within_memory(args) : measure_engine(args);
  if (ls::get_rank() == 0) std::printf("%s\n", result.dump().c_str());
  ls::destroy_process_group();
}

}  // namespace
}  // namespace lockstep::plan_worker

int lockstep::run_plan_worker(int argc, char** argv) {
  using namespace plan_worker;
  Arguments args;
  CLI::App app("One rank of `lockstep plan`.");
  app.add_option("--measure", args.measure)->check(CLI::IsMember({"model", "engine"}));
  app.add_option("--model", args.model);
  app.add_option("--engine", args.engine);
  app.add_option("--batch", args.batch);
  app.add_option("--seq", args.seq);
  app.add_option("--steps", args.steps);
  app.add_flag("--bf16", args.bf16);
  app.add_option("--bytes", args.bytes)->delimiter(',');
  return ls::run_worker(app, argc, argv, [&] { run(args); });
}
