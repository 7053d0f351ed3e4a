// One process of `lockstep bench wrappers` and `bench batch-size`: trains by one wrapper, at each batch size in turn,
// and prints a JSON object for each of its ranks and each size. `lockstep run` starts it, for any wrapper.
#include <torch/utils.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/workers/run_worker.h"
#include "bench/workers/workers.h"
#include "bench/wrappers/wrapper_job.h"
#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/processor/heap.h"
#include "lockstep/models/registry.h"
#include "tools/models/verify_data.h"

namespace lockstep {
namespace {

struct WrapperArguments {
  std::string wrapper;
  std::string model;
  std::string data;
  int replicas = 1;
  std::vector<std::int64_t> batches;
  std::vector<int> steps;
  std::int64_t sequence_length = 0;
  double seconds = 0;
};

const std::map<std::string, void (*)(WrapperJob&)>& training_programs() {
  static const std::map<std::string, void (*)(WrapperJob&)> programs{{"one-device", train_on_one_device},
                                                                     {"data-parallel", train_by_data_parallel},
                                                                     {"parallel-loss", train_by_parallel_loss},
                                                                     {"ddp-threads", train_by_ddp_threads},
                                                                     {"ddp-processes", train_by_ddp_processes}};
  return programs;
}

std::int64_t parameters_of(const Model& model) {
  std::int64_t count = 0;
  for (const at::Tensor& parameter : model.parameters()) count += parameter.numel();
  return count;
}

Batch make_batch(const Model& model, const Dataset* data, const WrapperArguments& args, std::int64_t size) {
  if (data != nullptr) return verification_batch(*data, args.data, size, 0);
  RandomBatchOptions shape;
  shape.size = size;
  shape.sequence_length = args.sequence_length;
  return model.random_batch(shape);
}

void print_results(const WrapperJob& job, std::int64_t batch, std::int64_t parameters) {
  for (std::size_t rank = 0; rank < job.measured().size(); ++rank) {
    const TimedBatches* part = job.measured()[rank].get();
    if (part == nullptr) continue;
    const ResidentMemory& memory = part->memory();
    std::printf(
        "{\"rank\": %zu, \"batch\": %lld, \"median_ms\": %.6f, \"steps\": %d, \"parameters\": %lld, \"peak_mib\": "
        "%.3f, "
        "\"private_mib\": %.3f, \"file_mib\": %.3f, \"shared_mib\": %.3f}\n",
        rank, static_cast<long long>(batch), part->median_ms(), part->steps(), static_cast<long long>(parameters),
        memory.peak, memory.private_part(), memory.file, memory.shared_part);
    std::fflush(stdout);  // writes a whole line: the ranks share the pipe
  }
}

void run(const WrapperArguments& args) {
  keep_freed_memory();
  if (const auto threads = env_int("OMP_NUM_THREADS")) torch::set_num_threads(static_cast<int>(*threads));
  torch::manual_seed(0);
  auto example = make_model(args.model);
  const std::int64_t parameters = parameters_of(*example);
  const auto data = args.data.empty() ? nullptr : verification_data(*example, args.data);
  std::vector<Batch> batches;
  for (const std::int64_t size : args.batches) batches.push_back(make_batch(*example, data.get(), args, size));
  example.reset();  // otherwise its weights would count as memory of the training
  for (std::size_t i = 0; i < args.batches.size(); ++i) {
    MeasuredSteps measured;
    measured.most = args.steps.at(args.steps.size() == 1 ? 0 : i);
    measured.seconds = args.seconds;
    WrapperJob job([&args] { return make_model(args.model); }, batches[i], args.replicas, measured);
    training_programs().at(args.wrapper)(job);
    print_results(job, args.batches[i], parameters);
  }
}

}  // namespace
}  // namespace lockstep

int lockstep::run_wrapper_worker(int argc, char** argv) {
  lockstep::WrapperArguments args;
  CLI::App app("One process of `lockstep bench wrappers` and `lockstep bench batch-size`.");
  std::vector<std::string> names;
  for (const auto& [name, train] : lockstep::training_programs()) names.push_back(name);
  app.add_option("--wrapper", args.wrapper)->required()->check(CLI::IsMember(names));
  app.add_option("--model", args.model)->required();
  app.add_option("--data", args.data);
  app.add_option("--replicas", args.replicas)->check(CLI::PositiveNumber);
  app.add_option("--batch", args.batches)->required()->delimiter(',');
  app.add_option("--steps", args.steps, "one number, or one for each batch size")->required()->delimiter(',');
  app.add_option("--seq", args.sequence_length);
  app.add_option("--seconds", args.seconds, "end a size earlier after this much time");
  return lockstep::run_worker(app, argc, argv, [&] { lockstep::run(args); });
}
