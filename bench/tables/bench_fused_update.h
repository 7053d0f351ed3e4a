#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "lockstep/optim/flat_optimizer.h"

namespace lockstep {

/// The part of `lockstep bench optimizer` that runs on all ranks at once. The ranks are threads of this process.
struct FusedUpdateBench {
  using Parameters = std::vector<at::Tensor>;
  int ranks = 2;
  int rounds = 1;
  std::function<Parameters()> make_parameters;  ///< with gradients
  std::function<std::unique_ptr<torch::optim::Optimizer>(Parameters)> theirs;
  std::function<std::shared_ptr<FlatOptimizer>(Parameters)> ours;
  std::function<void()> evict;                                     ///< evicts the contenders' memory from the caches
  std::function<std::function<void()>(std::int64_t numel)> bound;  ///< a plain pass over the bytes of one rank
};

/// Milliseconds of each round on the slowest rank, for three contenders: the bound; the bound of an all-reduce followed
/// by LibTorch's update of everything on every rank; and the step of a fused optimizer.
std::array<std::vector<double>, 3> time_fused_update(const FusedUpdateBench& bench);

}  // namespace lockstep
