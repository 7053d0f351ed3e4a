// A program that fuses LibTorch's own optimizer.
#include <torch/torch.h>

#include "lockstep/parallel/distributed_data_parallel.h"

lockstep::FuseMode refused(lockstep::DistributedDataParallel<torch::nn::Linear>& ddp, torch::optim::Adam& optimizer) {
  return ddp.fuse(optimizer);
}
