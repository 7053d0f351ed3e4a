#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/comm/factory.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "tests/support/ranks.h"

namespace lockstep {

using Group = std::shared_ptr<Communicator>;

inline DistributedDataParallelOptions fuse_on(Group group) {
  DistributedDataParallelOptions options;
  options.process_group = std::move(group);
  return options;
}

/// Runs `body` on ranks that `engine` connects: as processes for shm, else as threads.
inline void fuse_ranks(const std::string& engine, int world_size, const std::function<void(Group)>& body) {
  const auto rank = [&](const Membership& membership) { body(make_communicator(engine, membership)); };
  if (engine == "shm") {
    run_ranks_as_processes(world_size, rank);
  } else {
    run_ranks_as_threads(world_size, rank);
  }
}

inline std::string fuse_error(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

/// Equal on every rank, whatever other threads draw.
inline torch::nn::Linear make_linear(int in, int out) {
  torch::nn::Linear model(in, out);
  const torch::NoGradGuard no_grad;
  int next = 1;
  for (auto& parameter : model->parameters()) {
    parameter.copy_(torch::linspace(-0.5, 0.5 / next++, parameter.numel()).view(parameter.sizes()));
  }
  return model;
}

inline torch::Tensor fuse_batch(int rank, int step, int width) {
  return torch::linspace(-1 - rank, 1 + step, 2 * width).view({2, width});
}

}  // namespace lockstep
