#include <torch/torch.h>

#include "lockstep/comm/process_group.h"
#include "lockstep/optim/adam.h"
#include "lockstep/parallel/distributed_data_parallel.h"

int main() {
  lockstep::init_process_group();
  torch::nn::Linear model(4, 1);
  lockstep::DistributedDataParallel ddp(model);
  lockstep::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-3));
  ddp.fuse(optimizer);
  for (int step = 0; step < 10; ++step) {
    optimizer.zero_grad();
    ddp(torch::randn({8, 4})).pow(2).mean().backward();
    optimizer.step();
  }
  std::printf("rank %d of %d: %.4f\n", lockstep::get_rank(), lockstep::get_world_size(),
              model->weight.sum().item<float>());
  lockstep::destroy_process_group();
}
