#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/train/training_arguments.h"

namespace lockstep {

/// What the ranks share out in a training.
struct Sharding {
  /// As ZeRO counts: 1, the state of the optimizer, which a training on several ranks does by itself; 2, gradients too
  /// (`fsdp` shard_grad_op); 3, weights too (full_shard).
  int stage = 1;
  /// With stage 2: FuseOptions::hybrid_shard (`fsdp` hybrid_shard, hybrid_shard_zero2).
  bool is_hybrid = false;
  // The options of FuseOptions for stage 3, under their names.
  std::vector<std::string> unit_types;
  std::int64_t unit_min_params = 0;
  bool reshard_after_forward = true;
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
