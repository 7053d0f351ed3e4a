#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/data/sampler.h"
#include "lockstep/detail/checkpoint/tensor_parts.h"
#include "lockstep/detail/checkpoint/trainer_state.h"
#include "lockstep/detail/optim/named_state.h"
#include "lockstep/safetensors/safetensors.h"

namespace lockstep {

/// The state of one optimizer.
struct OptimizerContent {
  /// `FlatOptimizer::named_state`: the whole state on every rank or, if ranks share the update, this rank's parts.
  NamedState state;
  /// `FlatOptimizer::is_sharded()`, equal on all ranks. If true, every rank writes its part; else rank 0 writes
  /// everything.
  bool is_sharded = false;
  std::vector<std::map<std::string, double>> groups;  ///< `FlatOptimizer::group_options`
};

/// Everything that one rank contributes to a checkpoint. Tensors are read while `CheckpointWriter::save` runs, and may
/// change afterwards.
struct CheckpointContent {
  std::int64_t step = 0;  ///< N of `checkpoint-N`; the same on every rank

  // Read on rank 0 only.
  NamedTensors weights;                       ///< `model.safetensors`, under Hugging Face's names
  std::vector<NamedTensors> further_weights;  ///< of further models: `model_1.safetensors`, ...
  /// Its `best_global_step` is never rotated away. If absent, no `trainer_state.json` is written.
  std::optional<TrainerState> trainer_state;
  /// Further files by name, as bytes: `config.json`, tokenizer files, `training_args.json`, `scheduler.json`,
  /// `scaler.json` (see schedule_state.h). Plain names, or such names in one folder: `1_Pooling/config.json`.
  std::map<std::string, std::string> files;

  // Read on every rank.
  /// In place of `weights` and `further_weights`: this rank's parts of each model's weights, which it writes itself, so
  /// that no rank writes or holds all of them. All ranks together give each element once (`parts_of_rank`); all give
  /// equally many models. Empty: rank 0 writes the weights whole.
  std::vector<TensorParts> weight_parts;
  /// With `weight_parts`: rank 0 writes each model's weights as one file, `model.safetensors`, with the bytes of an
  /// unsharded save. The others send it their elements in pieces while it writes. Equal on all ranks.
  bool joins_weight_parts = false;
  OptimizerContent optimizer;
  std::vector<OptimizerContent> further_optimizers;  ///< `optimizer_1.safetensors`, ...
  NamedTensors generators;                           ///< state of this rank's generators: see Generators
  std::map<std::string, SamplerState> samplers;      ///< this rank's `DataLoader::state()` by a name ("train")
  /// All other tensors of this rank that must be restored bit for bit: gradients of an incomplete accumulation window,
  /// sums that are not logged yet. The caller chooses the names.
  NamedTensors rank_tensors;
};

}  // namespace lockstep
