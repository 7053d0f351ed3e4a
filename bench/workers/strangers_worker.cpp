// One rank of `lockstep bench strangers`: trains a small model over engine tcp. Rank 0 prints the number of its steps
// and a digest of the weights.
#include <torch/torch.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/workers/run_worker.h"
#include "bench/workers/workers.h"
#include "lockstep/comm/factory.h"
#include "lockstep/models/registry.h"
#include "lockstep/net/rendezvous.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/parallel/agreement/tensor_digest.h"
#include "lockstep/parallel/distributed_data_parallel.h"

namespace ls = lockstep;

namespace lockstep::strangers_worker {
namespace {

bool exists(const std::string& file) { return ::access(file.c_str(), F_OK) == 0; }

// The ranks know each other before the last one is late, so the others listen for it meanwhile.
std::shared_ptr<ls::Communicator> group_that_forms_slowly(const ls::Membership& members,
                                                          const std::string& start_file) {
  while (members.rank + 1 == members.world_size && !exists(start_file)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return ls::make_communicator("tcp", members);
}

// Whether rank 0 sees the file. Collective.
bool is_over(ls::Communicator& group, const std::string& stop_file) {
  torch::Tensor over = torch::zeros({1});
  if (group.rank() == 0 && exists(stop_file)) over.fill_(1);
  group.broadcast(over, 0);
  return over.item<float>() > 0;
}

void train(const std::shared_ptr<ls::Communicator>& group, const std::string& stop_file, long steps) {
  const auto model = ls::make_model("convnet");
  ls::SGD optimizer(model->parameters(), torch::optim::SGDOptions(1e-2));
  ls::DistributedDataParallelOptions options;
  options.process_group = group;
  ls::DistributedDataParallel ddp(model, options);
  ls::RandomBatchOptions shape;
  shape.size = 4;
  const ls::Batch batch = model->random_batch(shape);
  long step = 0;
  while (steps >= 0 ? step < steps : !is_over(*group, stop_file)) {
    optimizer.zero_grad();
    model->loss(ddp(batch), batch).mean().backward();
    optimizer.step();
    ++step;
    if (group->rank() == 0 && step % 100 == 0) std::printf("step %ld\n", step);
  }
  std::vector<torch::Tensor> weights;
  for (const auto& parameter : model->parameters()) weights.push_back(parameter.detach().flatten());
  const auto digest = static_cast<unsigned long long>(ls::tensor_digest(torch::cat(weights)));
  if (group->rank() == 0) std::printf("steps %ld digest %016llx\n", step, digest);
}

}  // namespace
}  // namespace lockstep::strangers_worker

int lockstep::run_strangers_worker(int argc, char** argv) {
  using namespace strangers_worker;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  CLI::App app("lockstep-strangers-worker: one rank of `lockstep bench strangers`");
  std::string start_file;
  std::string stop_file;
  long steps = -1;
  app.add_option("--start-file", start_file, "the last rank joins the group that trains once this file exists")
      ->required();
  app.add_option("--stop-file", stop_file, "the training ends once this file exists");
  app.add_option("--steps", steps, "the training ends after this many steps");
  return ls::run_worker(app, argc, argv, [&] {
    torch::set_num_threads(1);
    torch::manual_seed(0);
    const ls::Membership members = ls::rendezvous({});
    train(group_that_forms_slowly(members, start_file), stop_file, steps);
    members.store->finish(ls::Deadline::after(std::chrono::minutes(1)));
  });
}
