#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/parallel/sharding_strategy.h"

namespace lockstep {

/// FSDP's types of state dict: who writes the weights of a checkpoint.
enum class StateDictType {
  Full,    ///< the main process, whole: `model.safetensors`. Others send it pieces of weights in shards as it writes
  Sharded  ///< each rank a part: `model_shard-0000R-of-0000W.safetensors`
};

/// Accelerate's FullyShardedDataParallelPlugin: `prepare` lets the ranks share out models with their optimizers
/// (DistributedDataParallel::fuse), which must be Lockstep's. Under its names.
struct FullyShardedDataParallelPlugin {
  ShardingStrategy sharding_strategy = ShardingStrategy::FullShard;
  bool reshard_after_forward = true;                            ///< with FullShard, as FuseOptions
  std::vector<std::string> transformer_cls_names_to_wrap = {};  ///< types of layers that are units
  std::int64_t min_num_params = 0;                              ///< or their least number of elements
  StateDictType state_dict_type = StateDictType::Full;          ///< of save_state, unless SaveStateOptions says another
};

/// What ACCELERATE_USE_FSDP and the variables FSDP_... ask for, as `lockstep launch` and accelerate's launcher set them
/// from a configuration file. Nothing without them, or if they ask for NO_SHARD.
/// @throws Error  if they ask for what is not there, with the reason
std::optional<FullyShardedDataParallelPlugin> fsdp_plugin_of_environment();

}  // namespace lockstep
