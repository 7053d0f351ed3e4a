#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/detail/parallel/sharding_options.h"

namespace lockstep {

/// FSDP's types of state dict: who writes the weights of a checkpoint.
enum class StateDictType {
  Full,    ///< the main process, whole: `model.safetensors`. Others send it pieces of weights in shards as it writes
  Sharded  ///< each rank a part: `model_shard-0000R-of-0000W.safetensors`
};

/// Accelerate's FullyShardedDataParallelPlugin: `prepare` lets the ranks share out models with their optimizers
/// (DistributedDataParallel::fuse), which must be Lockstep's. `sharding_strategy` NoShard is an Error.
struct FullyShardedDataParallelPlugin : ShardingOptions {
  std::vector<std::string> transformer_cls_names_to_wrap = {};  ///< Accelerate's name of `unit_types`: they are added
  std::int64_t min_num_params = 0;                      ///< Accelerate's name of `unit_min_params`: in place of 0 there
  StateDictType state_dict_type = StateDictType::Full;  ///< of save_state, unless SaveStateOptions says another
};

/// What ACCELERATE_USE_FSDP and the variables FSDP_... ask for, as `lockstep launch` and accelerate's launcher set them
/// from a configuration file. Nothing without them, or if they ask for NO_SHARD.
/// @throws Error  if they ask for what is not there, with the reason
std::optional<FullyShardedDataParallelPlugin> fsdp_plugin_of_environment();

}  // namespace lockstep
