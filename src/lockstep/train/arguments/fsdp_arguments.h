#pragma once

#include <string>

#include "lockstep/detail/parallel/sharding_options.h"
#include "lockstep/train/training_arguments.h"

namespace lockstep {

/// What the ranks share out in a training: without `fsdp`, NoShard, which a training on several ranks does by itself.
struct Sharding : ShardingOptions {
  Sharding() { sharding_strategy = ShardingStrategy::NoShard; }

  int stage() const { return stage_of(sharding_strategy); }
  /// Each rank saves a part of the weights (`fsdp_config` with state_dict_type SHARDED_STATE_DICT), in place of rank 0
  /// all of them (FULL_STATE_DICT, the default).
  bool saves_shards = false;
};

/// What `fsdp` and `fsdp_config` ask for.
/// @throws UsageError  if they ask for what is not there, with the reason
Sharding sharding_of(const TrainingArguments& arguments, const std::string& where);

/// Whether each of this many ranks may have only a share of the weights: then a model is to be built deferred.
bool may_shard_weights(const TrainingArguments& arguments, int world_size);

/// @throws UsageError  as above, and if other arguments do not go with it
void check_sharding(const TrainingArguments& arguments, const std::string& where);

/// "shard_grad_op", "full_shard" or "hybrid_shard"
const char* fsdp_name(const Sharding& sharding);

}  // namespace lockstep
