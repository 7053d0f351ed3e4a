#pragma once

#include <torch/optim/optimizer.h>
#include <torch/optim/schedulers/lr_scheduler.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/checkpoint/state/world_remap.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/detail/tensor/module_tensors.h"
#include "lockstep/detail/train/checkpointable.h"
#include "lockstep/detail/train/fsdp_plugin.h"
#include "lockstep/detail/train/prepared_loader.h"
#include "lockstep/detail/train/prepared_optimizer.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/train/accelerator/loader_reading.h"
#include "lockstep/train/accelerator/update_state.h"

namespace lockstep {

/// The tensors of a model that are saved: its parameters and buffers. Internal.
NamedTensors tensors_to_save(const ModuleTensors& tensors);

/// This rank's parts of them: its shards, an equal share of the parameters that every rank has, and on rank 0 all
/// buffers, of which other ranks may have other values. All ranks together have each element once. Internal.
TensorParts parts_to_save(const ModuleTensors& module, const TensorParts& shards, int rank, int world_size);

/// The content of an Accelerator's checkpoints: all prepared objects, in order, and all registered ones. Objects must
/// outlive it; destroyed loaders are left out. Internal.
class AcceleratorState {
 public:
  explicit AcceleratorState(std::shared_ptr<UpdateState> update) : update_(std::move(update)) {}

  void add_model(std::function<ModuleTensors()> tensors, std::function<DistributedDataParallelBase&()> ddp) {
    models_.push_back(std::move(tensors));
    wrappers_.push_back(std::move(ddp));
  }
  void add_optimizer(torch::optim::Optimizer& optimizer) { optimizers_.push_back(&optimizer); }
  void add_scheduler(torch::optim::LRScheduler& scheduler) { schedulers_.push_back(&scheduler); }
  void add_loader(const PreparedLoader& loader) { loaders_.emplace_back(loader.reading_); }
  std::size_t loader_count() const { return loaders_.size(); }
  void add_object(Checkpointable object) { objects_.push_back(std::move(object)); }

  const std::vector<torch::optim::Optimizer*>& optimizers() const { return optimizers_; }

  /// Fuses each optimizer that has not been with its model, if that was added. Collective.
  /// @throws Error  if nothing can be shared out
  void share_out(const FullyShardedDataParallelPlugin& plugin);
  /// @throws Error  if an optimizer has found no model, or no optimizer was prepared
  void require_shared_out() const;

  /// Takes over what a rank without batches has missed besides updates of weights and optimizers: steps of schedulers
  /// and of the scale. Collective.
  void take_over_from(int rank, Communicator& group);

  /// The weights of each model, for a checkpoint.
  std::vector<NamedTensors> weights() const;
  /// Whether this rank has a share alone of some model's weights. Equal on all ranks.
  bool has_shards() const;
  /// This rank's parts of each model, of which all ranks together have each element once.
  /// @param differing  of a model of which ranks may have different weights: rank 0 has all parts, or it is an Error
  enum class Differing { OfRank0, Refused };
  std::vector<TensorParts> weight_parts(int rank, int world_size, Differing differing) const;
  /// The wrapper of each model, in the order of `weights`.
  std::vector<DistributedDataParallelBase*> wrappers() const;
  /// This rank's contribution to a checkpoint, without the weights.
  /// @throws Error  if an optimizer has a parameter that no prepared model has
  CheckpointContent content(std::int64_t iteration, bool is_main) const;
  /// Restores a checkpoint. If it holds other objects than are prepared here, throws before changing anything.
  /// @param own  this rank's part of it
  /// @param weights  of each model, to be filled; empty: that model is not read
  /// @throws Error  naming what does not fit
  void load(const Checkpoint& checkpoint, const ResumeState& own, const std::vector<NamedTensors>& weights);
  /// Compares weights in shards, which no step compares, with what rank 0 reads. Collective.
  /// @param weights  as `load` was given. @throws Error  on every rank, if one has read something else
  void check_shards(const Checkpoint& checkpoint, const std::vector<NamedTensors>& weights, Communicator& group);

 private:
  NamedParameters parameter_names() const;
  NamedTensors gradients_of_open_window() const;
  NamedTensors state_of_this_replica() const;
  void load_replica(const NamedTensors& saved);
  void check_counts(const Checkpoint& checkpoint) const;
  void drop_gradients();
  void load_weights(const Checkpoint& checkpoint, const std::vector<NamedTensors>& weights);
  void load_shards(const Checkpoint& checkpoint, std::size_t model, const NamedTensors& weights);
  void load_optimizer(std::size_t index, const Checkpoint& checkpoint);
  void load_window(const NamedTensors& saved);
  nlohmann::json counts() const;  // number of objects, by kind
  std::vector<int> cuda_devices() const;

  std::shared_ptr<UpdateState> update_;
  std::vector<std::function<ModuleTensors()>> models_;
  std::vector<std::function<DistributedDataParallelBase&()>> wrappers_;  // of each model
  std::vector<torch::optim::Optimizer*> optimizers_;
  std::set<const torch::optim::Optimizer*> shared_out_;
  std::vector<torch::optim::LRScheduler*> schedulers_;
  std::vector<std::weak_ptr<LoaderReading>> loaders_;
  std::vector<Checkpointable> objects_;
};

}  // namespace lockstep
