// How a training's model is built.
#pragma once

#include "lockstep/base/environment.h"
#include "lockstep/net/launcher_environment.h"
#include "lockstep/parallel/deferred.h"
#include "lockstep/train/arguments/fsdp_arguments.h"
#include "lockstep/train/training_arguments.h"

namespace lockstep {

/// What `make` returns. If the arguments let several ranks have a share of the weights each, its weights are deferred:
/// no rank ever holds all of them.
template <typename Make>
auto built_for_training(const TrainingArguments& args, const Make& make) {
  adopt_launcher_environment();
  const auto ranks = static_cast<int>(env_int("WORLD_SIZE").value_or(1));
  return may_shard_weights(args, ranks) ? deferred(make) : make();
}

}  // namespace lockstep
