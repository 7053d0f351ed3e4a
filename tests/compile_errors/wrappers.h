// What the programs of this folder use; compiled once.
#include <torch/data.h>
#include <torch/nn/module.h>
#include <torch/optim/adam.h>

#include <memory>

#include "lockstep/parallel/parallel_context.h"
#include "lockstep/replicas/data_parallel.h"
#include "lockstep/train/accelerator.h"

struct Net : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) { return x; }
};
