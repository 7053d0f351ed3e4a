// One rank of `lockstep bench restart`: trains until it is ended, saves, and resumes from the saved state. Each rank
// prints its process number; rank 0 prints each step.
#include <torch/torch.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "bench/workers/bench_ranks.h"
#include "bench/workers/workers.h"
#include "lockstep/base/environment.h"
#include "lockstep/checkpoint/checkpoint_search.h"
#include "lockstep/checkpoint/checkpoint_writer.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/models/registry.h"
#include "lockstep/optim/adam.h"
#include "lockstep/parallel/distributed_data_parallel.h"

namespace ls = lockstep;

namespace lockstep::restart_worker {
namespace {

void train(const std::string& folder, std::int64_t steps_per_save) {
  ls::init_bench_rank();
  const auto group = ls::default_group();
  const auto model = ls::make_model("convnet");
  ls::Adam optimizer(model->parameters(), torch::optim::AdamOptions(1e-4));
  const ls::NamedParameters parameters = model->named_parameters().pairs();
  ls::NamedTensors weights(parameters.begin(), parameters.end());
  std::int64_t step = 0;
  const ls::CheckpointSearch found = ls::find_newest_checkpoint(folder, *group);
  if (found.newest) {
    found.newest->load_weights(weights);
    optimizer.load_named_state(parameters, found.newest->optimizer().state);
    step = found.newest->step();
  }
  ls::DistributedDataParallel ddp(model);
  ls::CheckpointWriterOptions options;
  options.output_dir = folder;
  options.save_total_limit = 2;
  options.background = false;  // as torch.save does
  ls::CheckpointWriter writer(options, group);
  ls::RandomBatchOptions shape;
  shape.size = 16;
  const ls::Batch batch = model->random_batch(shape);
  for (;;) {
    for (auto& parameter : model->parameters()) parameter.mutable_grad().reset();
    model->loss(ddp(batch), batch).mean().backward();
    optimizer.step();
    ++step;
    if (group->rank() == 0) std::printf("step %lld\n", static_cast<long long>(step));
    if (step % steps_per_save != 0) continue;
    ls::CheckpointContent content;
    content.step = step;
    content.weights = weights;
    content.optimizer.state = optimizer.named_state(parameters);
    writer.save(content);
  }
}

}  // namespace
}  // namespace lockstep::restart_worker

int lockstep::run_restart_worker(int argc, char** argv) {
  using namespace restart_worker;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (argc != 3) {
    std::fprintf(stderr, "lockstep-restart-worker FOLDER STEPS_PER_SAVE: one rank of `lockstep bench restart`\n");
    return 2;
  }
  std::printf("rank %s pid %d\n", ls::env_string("RANK").value_or("0").c_str(), ::getpid());
  try {
    train(argv[1], std::atoll(argv[2]));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lockstep-restart-worker: %s\n", error.what());
    return 1;
  }
  return 0;
}
