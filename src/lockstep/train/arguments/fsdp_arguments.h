#pragma once

#include <string>

#include "lockstep/train/training_arguments.h"

namespace lockstep {

/// What the ranks share out in a training with these arguments, as ZeRO counts: 1, the state of the optimizer, which a
/// training on several ranks does by itself; 2, gradients too (`fsdp` shard_grad_op).
/// @throws UsageError  if `fsdp` or `fsdp_config` ask for something else, with the reason
int sharding_stage(const TrainingArguments& arguments, const std::string& where);

/// Whether each rank saves a part of the weights (`fsdp_config` with state_dict_type SHARDED_STATE_DICT), or rank 0
/// saves all of them (FULL_STATE_DICT, the default).
/// @throws UsageError  as above
bool saves_weights_in_shards(const TrainingArguments& arguments, const std::string& where);

/// @throws UsageError  as above, and if other arguments do not go with it
void check_sharding(const TrainingArguments& arguments, const std::string& where);

}  // namespace lockstep
