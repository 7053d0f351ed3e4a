#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// What the ranks share out, under FSDP1's names. FSDP2 says the last two by a mesh of two dimensions.
enum class ShardingStrategy {
  FullShard,    ///< weights, gradients and the optimizer's state, over all ranks: stage 3, as ZeRO counts
  ShardGradOp,  ///< gradients and state over all ranks: stage 2
  HybridShard,  ///< a replica of the weights on each host, for all of its ranks; gradients and state over all ranks
  HybridShardZero2,  ///< the same: where ranks share a copy, no weight is gathered before forward or backward
  NoShard            ///< state alone: stage 1
};
/// "full_shard", "shard_grad_op", "hybrid_shard", "hybrid_shard_zero2", "no_shard"
const char* to_string(ShardingStrategy strategy);
/// 1 to 3; 2 of the hybrid ones.
int stage_of(ShardingStrategy strategy);
bool is_hybrid(ShardingStrategy strategy);

/// What the ranks share out, and what of it is gathered and freed together. One type for all that ask for it:
/// FuseOptions, FullyShardOptions, FullyShardedDataParallelPlugin, and `fsdp` of TrainingArguments.
struct ShardingOptions {
  ShardingStrategy sharding_strategy = ShardingStrategy::FullShard;
  /// With FullShard: false keeps what forward has gathered until backward has used it (FSDP2's name).
  bool reshard_after_forward = true;
  /// With FullShard: what is gathered and freed as one unit, as FSDP2's fully_shard counts. Weights outside of all
  /// units are gathered at the first read and stay until backward ends. Names of submodules, as `named_modules` has
  /// them...
  std::vector<std::string> units = {};
  /// ...and all submodules of these types, "BertLayer" or "BertLayerImpl" (FSDP's transformer_layer_cls_to_wrap)...
  std::vector<std::string> unit_types = {};
  /// ...and the smallest submodules that have at least so many elements of parameters outside of other units (FSDP's
  /// min_num_params); 0: none. If nothing names a unit, each numbered submodule is one ("layers.0", "layers.1").
  std::int64_t unit_min_params = 0;
};

}  // namespace lockstep
