// Ranks whose data makes different numbers of batches, trained together:
//   lockstep run --nproc-per-node 2 uneven_inputs
//   lockstep run --nproc-per-node 2 uneven_inputs --no-join      what happens without `join`
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <vector>

#include "device.h"
#include "lockstep/base/error.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "run_example.h"

namespace ls = lockstep;

// `count` batches of this rank: points on the line y = 2x + 1.
std::vector<torch::Tensor> batches_of_rank(int count, torch::Device device) {
  torch::manual_seed(42 + ls::get_rank());
  std::vector<torch::Tensor> batches;
  for (int i = 0; i < count; ++i) batches.push_back(torch::rand({8, 1}).to(device));
  return batches;
}

void train(const std::vector<int>& counts, bool without_join) {
  ls::init_process_group();
  const int rank = ls::get_rank();
  if (counts.size() != static_cast<std::size_t>(ls::get_world_size())) {
    throw ls::Error(
        std::to_string(counts.size()) + " numbers of batches for " + std::to_string(ls::get_world_size()) + " ranks",
        "--batches", "give one number for each rank");
  }
  const torch::Device device = ls::use_local_device();  // the CPU if there is no other
  const auto data = batches_of_rank(counts.at(static_cast<std::size_t>(rank)), device);

  torch::nn::Linear line(1, 1);
  line->to(device);
  ls::DistributedDataParallel ddp(line);
  ls::SGD optimizer(line->parameters(), torch::optim::SGDOptions(0.5));

  int steps = 0;
  const auto loop = [&] {
    for (const torch::Tensor& x : data) {
      optimizer.zero_grad();
      const torch::Tensor loss = torch::mse_loss(ddp(x), 2 * x + 1);
      loss.backward();
      optimizer.step();
      std::printf("rank %d, step %d: loss %.4f\n", rank, ++steps, loss.item<double>());
    }
  };
  if (without_join) {
    loop();
  } else {
    ddp.join(loop);
  }
  std::printf("rank %d: y = %.6f x + %.6f after %d steps of its own\n", rank, line->weight.item<double>(),
              line->bias.item<double>(), steps);
  ls::destroy_process_group();
}

int main(int argc, char** argv) {
  std::vector<int> counts{3, 5};
  bool without_join = false;
  CLI::App app("Trains on ranks that have different numbers of batches. Start it with `lockstep run`.",
               "uneven_inputs");
  app.option_defaults()->always_capture_default();
  app.footer("Example: lockstep run --nproc-per-node 3 uneven_inputs --batches 1,4,6");
  app.add_option("--batches", counts, "number of batches of each rank, from rank 0")
      ->delimiter(',')
      ->check(CLI::Range(0, 1000000));
  app.add_flag("--no-join", without_join, "run the loop without join, to see the error");
  return run_example(app, argc, argv, [&] { train(counts, without_join); });
}
