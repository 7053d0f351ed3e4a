#pragma once

// Where an example computes: on the device of its LOCAL_RANK, or on the CPU if there is none.
#include <torch/torch.h>

#include <cstdio>

#include "lockstep/comm/local_device.h"
#include "lockstep/tensor/batch.h"

/// Moves the tensors of a batch to `device`. On the CPU it does nothing.
inline void move_to(lockstep::Batch& batch, torch::Device device) {
  for (auto& [name, tensor] : batch) tensor = tensor.to(device, /*non_blocking=*/true);
}

/// A count of 0 on `device`, of which the ranks' counts can be added up.
inline torch::Tensor zero_count(torch::Device device) {
  return torch::zeros({1}, torch::TensorOptions(torch::kLong).device(device));
}

/// Reports, for what computes on the CPU alone, that this host's devices are left alone. @param what  as "fully_shard"
inline void say_that_devices_are_unused(const char* what, int rank) {
  if (rank != 0 || lockstep::local_device().is_cpu()) return;
  std::fprintf(stderr, "%s computes on the CPU alone: the CUDA devices of this host are not used\n", what);
}
