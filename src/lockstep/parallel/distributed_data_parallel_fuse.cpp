// DistributedDataParallel: an optimizer whose step the ranks share, and weights in shards.
#include <ATen/core/grad_mode.h>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/parallel/agreement/optimizer_state.h"
#include "lockstep/parallel/agreement/optimizer_sync.h"
#include "lockstep/parallel/agreement/state_watch.h"
#include "lockstep/parallel/deferred/deferred_parameters.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/parallel/features/features.h"
#include "lockstep/parallel/fused/fused_update.h"
#include "lockstep/parallel/fused/recovery/update_rescue.h"
#include "lockstep/parallel/fused/weights/sharded_weights.h"
#include "lockstep/parallel/reducer/reducer.h"
#include "lockstep/parallel/slices/slices.h"
#include "lockstep/parallel/wrapping.h"
#include "lockstep/tensor/tensors_of.h"

namespace lockstep {

FuseMode DistributedDataParallelBase::fuse_mode() const { return fused_ ? fused_->mode() : FuseMode::Off; }

bool DistributedDataParallelBase::has_sent_gradients() const {
  return fuse_mode() != FuseMode::Off && fused_->has_sent_gradients();
}

ShardedWeights* DistributedDataParallelBase::sharded_weights() const {
  return fuse_mode() == FuseMode::Off ? nullptr : dynamic_cast<ShardedWeights*>(fused_->weights());
}

FuseMode DistributedDataParallelBase::fuse(FlatOptimizer& optimizer, FuseOptions options) {
  const std::string where = communicator_->membership().where() + ", fuse";
  const UpdateRescue* const rescue = UpdateRescue::of(optimizer);
  if (fuse_mode() != FuseMode::Off || optimizer.has_step_delegate()) {
    throw Error("an optimizer is fused already", where, "fuse one optimizer, once; unfuse takes it back");
  }
  if (optimizer.is_sharded() && (rescue == nullptr || !rescue->adopts())) {
    throw Error("this rank holds a part of the optimizer's state, and what updated the others' parts is gone", where,
                "call unfuse before the DistributedDataParallel goes, or build a new optimizer");
  }
  fused_.reset();
  Features features;
  features.add(Feature::Fuse);
  if (options.stage == 3) features.add(Feature::Stage3);
  if (tensors_.is_script) features.add(Feature::TorchScript);
  if (hook_ != nullptr) features.add(Feature::Hook);
  features.require_together(where);
  if (options.stage == 3) {
    options.units = unit_names(options, tensors_);
  } else if (options.hybrid_shard) {
    unit_names(options, tensors_);  // a name that is wrong is an Error here, too
  }
  if (!options.compute_dtype) options.compute_dtype = options_.compute_dtype;
  const auto not_fused = features.reason_not_to_fuse();
  fuse_reason_ = not_fused ? not_fused->what : "";
  if (rescue == nullptr && StateWatch::current() != nullptr) {
    fuse_reason_ =
        "the loop survives lost ranks, and ElasticState::optimizers does not have this optimizer, or has others, too";
  }
  if (fuse_reason_.empty()) {
    fused_ = FusedUpdate::make(optimizer, *reducer_, communicator_, options, fuse_reason_, slices_.get());
  }
  if (deferred_) deferred_->check_made(*communicator_);
  if (!fused_ && communicator_->rank() == 0) {
    log_warning("fuse: {}; gradients are averaged in backward, and every rank updates all weights", fuse_reason_);
  }
  return fuse_mode();
}

FuseMode DistributedDataParallelBase::fuse(torch::optim::Optimizer& optimizer, FuseOptions options) {
  if (auto* flat = dynamic_cast<FlatOptimizer*>(&optimizer)) return fuse(*flat, options);
  throw Error("the optimizer is not one of Lockstep's, whose step the ranks can share",
              communicator_->membership().where() + ", fuse",
              "build a lockstep::Adam, lockstep::AdamW or lockstep::SGD with the same options");
}

void DistributedDataParallelBase::unfuse() {
  if (fuse_mode() != FuseMode::Off) fused_->unfuse();
  fused_.reset();
}

void DistributedDataParallelBase::unfuse_weights() {
  if (fuse_mode() != FuseMode::Off) fused_->unfuse_weights();
  fused_.reset();
}

void DistributedDataParallelBase::own_weights() {
  const at::NoGradGuard no_grad;
  if (fuse_mode() != FuseMode::Off) fused_->weights_between_steps("own_weights").move_to_own_memory();
}

NamedState DistributedDataParallelBase::optimizer_state(const FlatOptimizer& optimizer) const {
  return gather_optimizer_state(*communicator_, optimizer, names_);
}

bool DistributedDataParallelBase::unshard() {
  ShardedWeights* const shards = sharded_weights();
  return shards != nullptr && shards->gather_all();
}

void DistributedDataParallelBase::reshard() {
  if (ShardedWeights* const shards = sharded_weights()) shards->free_all();
}

TensorParts DistributedDataParallelBase::weight_parts() {
  ShardedWeights* const shards = sharded_weights();
  return shards == nullptr ? TensorParts() : shards->own_parts();
}

void DistributedDataParallelBase::write_weight_parts(const std::function<void(const TensorParts&)>& write) {
  const at::NoGradGuard no_grad;
  if (fuse_mode() != FuseMode::Off) fused_->weights_between_steps("write_weight_parts").write_own_parts(write);
}

std::int64_t DistributedDataParallelBase::peak_weight_bytes() const {
  const ShardedWeights* const shards = sharded_weights();
  return shards == nullptr ? 0 : shards->peak_bytes();
}

// Whether a fused update that outlives ranks will bring memory for the gradients. Equal on all ranks.
bool DistributedDataParallelBase::fused_memory_follows() const {
  for (torch::optim::Optimizer* optimizer : optimizers_of(tensors_of(tensors_.parameters), {})) {
    const auto* const flat = dynamic_cast<const FlatOptimizer*>(optimizer);
    const UpdateRescue* const rescue = flat == nullptr ? nullptr : UpdateRescue::of(*flat);
    if (rescue != nullptr && rescue->refusal(*communicator_, {}, options_.virtual_shards != 0).empty()) return true;
  }
  return false;
}

}  // namespace lockstep
