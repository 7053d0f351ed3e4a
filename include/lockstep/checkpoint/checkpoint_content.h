#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/checkpoint/trainer_state.h"
#include "lockstep/data/sampler.h"
#include "lockstep/optim/named_state.h"
#include "lockstep/safetensors/safetensors.h"

namespace lockstep {

/// What an optimizer keeps.
struct OptimizerContent {
  /// `FlatOptimizer::named_state`: whole on every rank, or, where ranks share the update, this rank's parts.
  NamedState state;
  /// `FlatOptimizer::is_sharded()`: every rank then writes what it holds, else rank 0 alone. The same on every rank.
  bool is_sharded = false;
  std::vector<std::map<std::string, double>> groups;  ///< `FlatOptimizer::group_options`
};

/// Everything that a checkpoint holds, as one rank gives it. Tensors are read while `CheckpointWriter::save` runs and
/// may change afterwards.
struct CheckpointContent {
  std::int64_t step = 0;  ///< N of `checkpoint-N`; the same on every rank

  // Read on rank 0 alone.
  NamedTensors weights;                       ///< `model.safetensors`, under Hugging Face's names
  std::vector<NamedTensors> further_weights;  ///< of more models: `model_1.safetensors` and on
  /// Its `best_global_step` is never rotated away. Nothing: there is no `trainer_state.json`.
  std::optional<TrainerState> trainer_state;
  /// Further files by name, as bytes: `config.json`, tokenizer files, `training_args.json`, `scheduler.json`,
  /// `scaler.json` (see schedule_state.h). Plain names without a folder.
  std::map<std::string, std::string> files;

  // Read on every rank.
  OptimizerContent optimizer;
  std::vector<OptimizerContent> further_optimizers;  ///< `optimizer_1.safetensors` and on
  NamedTensors generators;                           ///< of this rank: see Generators
  std::map<std::string, SamplerState> samplers;      ///< of this rank: `DataLoader::state()` by a name ("train")
  /// Whatever else of this rank must come back to the bit: gradients of a window that is not full yet, sums that are
  /// not logged yet. Names are the caller's.
  NamedTensors rank_tensors;
};

}  // namespace lockstep
