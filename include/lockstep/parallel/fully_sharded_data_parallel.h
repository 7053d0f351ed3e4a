#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/detail/parallel/sharding_options.h"
#include "lockstep/detail/tensor/map_tensors.h"
#include "lockstep/detail/tensor/wrapped_module.h"
#include "lockstep/optim/flat_optimizer.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/tensor/bf16_forward.h"

namespace lockstep {

/// In which types a fully sharded module computes, sends and answers, under FSDP2's names.
struct MixedPrecisionPolicy {
  /// BFloat16: forward and backward compute in bf16, by autocast, which casts inputs too, and a Bf16Forward: the
  /// weights of Linear, convolutions, MultiheadAttention and Lockstep's layers are read and gathered in bf16, all
  /// others in fp32, in which owners and the optimizer keep them. Forwards in several threads wait for each other. Not
  /// set: as the module is.
  std::optional<c10::ScalarType> param_dtype;
  /// BFloat16 or Half: gradients of fp32 weights are sent in this type. Not set: in the weights' type.
  std::optional<c10::ScalarType> reduce_dtype;
  /// Floating-point tensors in forward's result get this type. Not set: as forward made them.
  std::optional<c10::ScalarType> output_dtype;
};

/// Whether the submodule of this name, as `named_modules` has it, is a unit.
using ShardingPolicy = std::function<bool(const std::string& name, const torch::nn::Module& module)>;

/// The arguments of PyTorch's fully_shard that make sense here, under their names, and what is a unit: weights that are
/// gathered, used and freed together, as PyTorch has it for each module on which fully_shard is called.
///
/// `sharding_strategy` NoShard is an Error, and so is HybridShard if a host's ranks have no copy of the weights
/// together (FuseOptions::hybrid_shard).
struct FullyShardOptions : ShardingOptions {
  std::shared_ptr<Communicator> process_group;  ///< FSDP2's mesh; default: the group of init_process_group
  /// Units besides those that the ShardingOptions name: the submodules that this function chooses.
  ShardingPolicy policy = {};
  MixedPrecisionPolicy mp_policy = {};
  /// Names of parameters and buffers that are not shared out and not synchronised.
  std::vector<std::string> ignored_params = {};
  /// Upper bound, in MiB, of what travels in one message. Weights are gathered by whole buckets: choose it no larger
  /// than a unit.
  double bucket_cap_mb = 2;
};

// The part of FullyShardedDataParallel that does not depend on the type of the module.
namespace detail {

/// Names of the submodules that are units by `options.units` and `policy`. @throws Error  if the policy chooses none
std::vector<std::string> chosen_units(const torch::nn::Module& module, const FullyShardOptions& options);
/// @throws Error  if a type in `mp_policy` has no counterpart
DistributedDataParallelOptions ddp_options_of(const FullyShardOptions& options);
/// Shares out weights, gradients and the optimizer's state. Collective. @throws Error  if that is not possible
void share_out(DistributedDataParallelBase& ddp, FlatOptimizer& optimizer, const FullyShardOptions& options,
               std::vector<std::string> units);
/// The tensor in `dtype`, if it is floating point.
at::Tensor in_dtype(const at::Tensor& tensor, c10::ScalarType dtype);

}  // namespace detail

/// A module whose weights, gradients and optimizer state are shared out over the ranks (ZeRO's stage 3), used as
/// PyTorch's FSDP2. A unit is gathered when forward or backward reads one of its weights, and freed when others follow.
///
///     lockstep::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-4));
///     auto fsdp = lockstep::fully_shard(model, optimizer, options);     // one call for all units
///     criterion(fsdp(images), labels).backward();
///     lockstep::clip_grad_norm_(fsdp.parameters(), 1.0);
///     optimizer.step();
///
/// It is a DistributedDataParallel with `fuse` and FuseOptions::stage 3, whose rules apply: weights have the bits of
/// plain steps; all ranks run the same units in the same order; forwards go through this object; and a weight that is
/// read outside of forward and backward is an Error, unless `unshard` was called. Ranks that share memory (engines shm
/// and thread) have one copy of the weights in place of shards, and so have the ranks of each host with HybridShard.
///
/// `train`, `eval`, `is_training`, `parameters`, `buffers`, `zero_grad` and `->` are the module's own. After Zhao et
/// al., 2023, arXiv:2304.11277, and Rajbhandari et al., 2020, arXiv:1910.02054.
template <typename ModuleType>
class FullyShardedDataParallel : public ModuleMembers<FullyShardedDataParallel<ModuleType>, ModuleType> {
  static_assert(detail::require_wrappable<ModuleType>());
  static_assert(!kIsScriptModule<ModuleType>,
                "a torch::jit::Module cannot be fully sharded: its operations may read weights past LibTorch's "
                "dispatcher. Use DistributedDataParallel and fuse with stage 2, or build the module in C++");

 public:
  FullyShardedDataParallel() = default;  ///< empty, as a DistributedDataParallel
  FullyShardedDataParallel(std::nullptr_t) {}
  /// Collective.
  /// @param optimizer  over the module's parameters; the ranks share its state
  /// @throws Error  as DistributedDataParallel and its `fuse`; if the policy chooses no submodule, or if nothing can be
  /// shared out
  FullyShardedDataParallel(ModuleType module, FlatOptimizer& optimizer, FullyShardOptions options = {})
      : options_(std::move(options)), ddp_(std::move(module), detail::ddp_options_of(options_)) {
    detail::share_out(ddp_, optimizer, options_, detail::chosen_units(*ddp_.module(), options_));
  }

  bool is_empty() const noexcept { return ddp_.is_empty(); }
  explicit operator bool() const noexcept { return !is_empty(); }

  /// The module's own forward; results as DistributedDataParallel's.
  template <typename... Args>
  auto forward(Args&&... args) {
    auto& module = *ddp_.module();
    std::optional<DistributedDataParallelBase::NoSync> local;
    if (!requires_gradient_sync_) local.emplace(ddp_.no_sync());
    auto output = [&] {
      // The layers' members stand for bf16 copies meanwhile: one forward at a time.
      std::unique_lock<std::mutex> alone(*bf16_forward_, std::defer_lock);
      std::optional<Bf16Forward> bf16;
      if (options_.mp_policy.param_dtype == c10::ScalarType::BFloat16) {
        alone.lock();
        bf16.emplace(module);
      }
      return ddp_.forward(std::forward<Args>(args)...);
    }();
    if (!options_.mp_policy.output_dtype) return output;
    std::vector<at::Tensor> tensors = tensors_of(output);
    for (at::Tensor& tensor : tensors) tensor = detail::in_dtype(tensor, *options_.mp_policy.output_dtype);
    return with_tensors(std::move(output), tensors);
  }
  template <typename... Args>
  auto operator()(Args&&... args) {
    return forward(std::forward<Args>(args)...);
  }

  /// false: gradients of the forwards from now on stay on this rank until a backward that synchronises, for
  /// accumulation without traffic, in memory for all of them. As in `no_sync`, the forward decides.
  void set_requires_gradient_sync(bool requires_gradient_sync) { requires_gradient_sync_ = requires_gradient_sync; }
  /// Gathers all weights, in memory for all of them, until `reshard` or the next step: for reading, saving, or writing
  /// the same values on every rank. Collective.
  void unshard() { fused_step().unshard(); }
  /// Frees them again. Not collective.
  void reshard() { fused_step().reshard(); }
  /// The largest number of bytes of weights that this rank has held at a time since the construction, its shares
  /// included; 0 if ranks share one copy.
  std::int64_t peak_weight_bytes() const { return fused_step().peak_weight_bytes(); }
  /// The optimizer's step, which the ranks share: this rank's part of the weights, to save and to load; `unfuse`.
  FusedStep fused_step() const { return ddp_.fused_step(); }

  ModuleType& module() { return ddp_.module(); }
  /// For all else: `no_sync`, `optimizer_state` for a checkpoint, statistics.
  DistributedDataParallel<ModuleType>& ddp() { return ddp_; }

 private:
  FullyShardOptions options_;
  DistributedDataParallel<ModuleType> ddp_;
  bool requires_gradient_sync_ = true;
  std::unique_ptr<std::mutex> bf16_forward_ = std::make_unique<std::mutex>();
};

/// PyTorch's fully_shard, for a whole model at a time: `options` name the units, and the optimizer comes first.
/// Collective. @throws Error  as the constructor
template <typename ModuleType>
FullyShardedDataParallel<ModuleType> fully_shard(ModuleType module, FlatOptimizer& optimizer,
                                                 FullyShardOptions options = {}) {
  return FullyShardedDataParallel<ModuleType>(std::move(module), optimizer, std::move(options));
}

}  // namespace lockstep
