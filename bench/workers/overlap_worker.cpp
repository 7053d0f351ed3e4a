// One rank of `lockstep-bench-overlap`: a training step, a step without communication, and the communication alone, in
// turn. Rank 0 prints one JSON object.
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/workers/bench_ranks.h"
#include "bench/workers/run_worker.h"
#include "bench/workers/workers.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/models/registry.h"
#include "lockstep/optim/adam.h"
#include "lockstep/parallel/distributed_data_parallel.h"

namespace ls = lockstep;

namespace lockstep::overlap_worker {
namespace {

struct Arguments {
  std::string model;
  std::string engine;
  std::int64_t batch = 1;
  std::int64_t seq = 0;
  int steps = 1;
  double bucket_cap_mb = 0;
  std::string hook = "none";
  bool step_alone = false;
};

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Times of one kind of step on this rank, and the part that is backward.
struct Times {
  std::vector<double> all;
  std::vector<double> backward;
};

class Bench {
 public:
  explicit Bench(const Arguments& args)
      : model_(ls::make_model(args.model == "mlp" ? "mlp-wide" : args.model)),
        ddp_(model_, ddp_options(args)),
        optimizer_(model_->parameters(), torch::optim::AdamOptions(1e-4)) {
    if (args.hook != "none") ddp_.register_comm_hook(ls::make_communication_hook(args.hook));
    ls::RandomBatchOptions shape;
    shape.size = args.batch;
    shape.sequence_length = args.seq;
    batch_ = model_->random_batch(shape);
    std::map<std::string, torch::Tensor> parameters;
    for (const auto& entry : model_->named_parameters()) parameters[entry.key()] = entry.value();
    for (const auto& names : ddp_.bucket_names()) {
      std::int64_t numel = 0;
      for (const std::string& name : names) numel += parameters.at(name).numel();
      buckets_.push_back(ls::default_group()->allocate({numel}, torch::kFloat).zero_());
    }
  }

  void step(Times& times) {
    const auto start = Clock::now();
    for (auto& parameter : model_->parameters()) parameter.mutable_grad().reset();  // as set_to_none does
    const torch::Tensor loss = model_->loss(ddp_(batch_), batch_).mean();
    const auto middle = Clock::now();
    loss.backward();
    times.backward.push_back(ms_since(middle));
    optimizer_.step();
    times.all.push_back(ms_since(start));
  }

  void step_alone(Times& times) {
    const auto quiet = ddp_.no_sync();
    step(times);
  }

  void communicate(Times& times) {
    const auto start = Clock::now();
    std::vector<std::shared_ptr<ls::Work>> under_way;
    for (const torch::Tensor& bucket : buckets_) {
      under_way.push_back(ls::default_group()->all_reduce_async(bucket, ls::ReduceOp::Avg));
    }
    for (const auto& work : under_way) work->wait();
    times.all.push_back(ms_since(start));
  }

  std::int64_t gradient_bytes() const {
    std::int64_t bytes = 0;
    for (const torch::Tensor& bucket : buckets_) bytes += static_cast<std::int64_t>(bucket.nbytes());
    return bytes;
  }
  std::size_t buckets() const { return buckets_.size(); }

 private:
  static ls::DistributedDataParallelOptions ddp_options(const Arguments& args) {
    ls::DistributedDataParallelOptions options;
    options.bucket_cap_mb = args.bucket_cap_mb;
    return options;
  }

  std::shared_ptr<ls::Model> model_;
  ls::DistributedDataParallel<std::shared_ptr<ls::Model>> ddp_;
  ls::Adam optimizer_;
  ls::Batch batch_;
  std::vector<torch::Tensor> buckets_;  // as large as the buckets of ddp_
};

void run(const Arguments& args) {
  ls::init_bench_rank(args.engine);
  Bench bench(args);
  Times step, alone, exchange;
  const auto in_turn = [&](Times& times, int count, const std::function<void(Times&)>& one) {
    ls::default_group()->barrier();
    Times warm_up;
    one(warm_up);
    for (int i = 0; i < count; ++i) one(times);
  };
  constexpr int kTurns = 3;
  for (int turn = 0; turn < kTurns; ++turn) {
    const int count = std::max(1, args.steps / kTurns);
    in_turn(step, count, [&](Times& times) { bench.step(times); });
    if (args.step_alone) continue;
    in_turn(alone, count, [&](Times& times) { bench.step_alone(times); });
    in_turn(exchange, count, [&](Times& times) { bench.communicate(times); });
  }
  const double step_ms = ls::median_of_ranks(step.all);
  if (args.step_alone) {
    if (ls::get_rank() == 0) std::printf("{\"step_ms\": %.6f}\n", step_ms);
    return ls::destroy_process_group();
  }
  const double alone_ms = ls::median_of_ranks(alone.all);
  const double backward_ms = ls::median_of_ranks(alone.backward);
  const double exchange_ms = ls::median_of_ranks(exchange.all);
  if (ls::get_rank() == 0) {
    std::printf(
        "{\"step_ms\": %.6f, \"alone_ms\": %.6f, \"backward_ms\": %.6f, \"exchange_ms\": %.6f, \"bytes\": %lld, "
        "\"buckets\": %zu}\n",
        step_ms, alone_ms, backward_ms, exchange_ms, static_cast<long long>(bench.gradient_bytes()), bench.buckets());
  }
  ls::destroy_process_group();
}

}  // namespace
}  // namespace lockstep::overlap_worker

int lockstep::run_overlap_worker(int argc, char** argv) {
  using namespace overlap_worker;
  Arguments args;
  CLI::App app("One rank of `lockstep-bench-overlap`.");
  app.add_option("--model", args.model)->required();
  app.add_option("--engine", args.engine);
  app.add_option("--batch", args.batch)->required();
  app.add_option("--seq", args.seq);
  app.add_option("--steps", args.steps)->required();
  app.add_option("--bucket-cap-mb", args.bucket_cap_mb);
  app.add_option("--hook", args.hook);
  app.add_flag("--step-alone", args.step_alone, "nothing but the step");
  return ls::run_worker(app, argc, argv, [&] { run(args); });
}
