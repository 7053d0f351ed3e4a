#pragma once

#include <c10/core/ScalarType.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// The arguments of PyTorch's DistributedDataParallel that make sense here, under their names.
///
/// Two arguments are missing because their effect is always on: gradients are views into the buckets
/// (`gradient_as_bucket_view`), and parameters without a gradient are found (`find_unused_parameters`).
struct DistributedDataParallelOptions {
  std::shared_ptr<Communicator> process_group;  ///< default: the group of init_process_group
  /// Upper bound of a bucket, in MiB. A number applies to all buckets. 0: 1 for the first bucket; for the others 25 on
  /// one host and on CUDA devices, 2 between hosts.
  double bucket_cap_mb = 0;
  bool broadcast_buffers = true;  ///< send rank 0's buffers to all ranks before each forward in training
  /// At construction, check that the models are equal and send rank 0's to all. Deferred weights (`deferred`) are not
  /// made for it: ranks take over how rank 0 draws them, and the others are sent before the first forward in training.
  bool init_sync = true;
  /// Promises that in every step the same parameters get gradients. From the second step on, parameters without a
  /// gradient are known and do not delay their bucket. A broken promise is an Error.
  bool static_graph = false;
  std::vector<std::string> parameters_and_buffers_to_ignore;  ///< names of tensors that are not synchronised
  /// Notice replicas that drift apart, with an Error that names the parameter and the rank. false: for methods in which
  /// each rank changes weights on its own during a backward and restores them before the update, such as SAM.
  bool watch_replicas = true;
  /// Float or BFloat16: the type in which forwards compute under autocast. It changes no forward, only what `fuse`
  /// does: see FuseOptions::compute_dtype. Trainer and Accelerator set it for their mixed precision.
  c10::ScalarType compute_dtype = c10::ScalarType::Float;
  /// Above 0: the global batch of an update is cut into this many virtual shards, at least one for each rank, and
  /// weights get the same bits for every number of ranks. See `run_shards`.
  std::int64_t virtual_shards = 0;
};

struct JoinOptions {
  /// true: the average counts a rank that has run out of inputs as zero gradients, as PyTorch does by default.
  /// false: the average is over the ranks that still have inputs.
  bool divide_by_initial_world_size = true;
  /// LibTorch's optimizers that the loop steps; Lockstep's own are found without this list. Every rank lists its own,
  /// in the same order.
  std::vector<torch::optim::Optimizer*> optimizers = {};
};

}  // namespace lockstep
