#pragma once

#include <functional>
#include <string>

#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/detail/checkpoint/checkpoint_content.h"
#include "lockstep/train/trainer_context.h"

namespace lockstep {

/// The weights of a Trainer's model, to be saved and loaded, whether each rank has all of them or they are in shards.
/// In shards, no rank ever holds more than its share and a piece of another's.
class ModelWeights {
 public:
  /// @param context  outlives this object
  explicit ModelWeights(TrainerContext& context) : context_(context) {}

  /// Adds what this rank gives for a checkpoint: all on rank 0, or a part on each rank.
  void add_to(CheckpointContent& content) const;
  /// Loads them, and compares what the ranks have loaded. Collective.
  /// @param what  describes them in errors
  /// @throws Error  if the checkpoint does not fit the model, or ranks have read something else than rank 0
  void load(const Checkpoint& checkpoint, const std::string& what) const;
  /// With weights in shards: writes `path`, a safetensors file, on rank 0, and then calls `finish` there. Collective.
  void save(const std::string& path, const std::function<void()>& finish) const;
  /// The name of a weight with a NaN or an infinity; empty if all are finite. Collective if weights are in shards.
  std::string first_unsound() const;

 private:
  NamedTensors whole_parameters() const;
  NamedTensors buffers() const;
  TensorParts own_share() const;
  void load_shards(const Checkpoint& checkpoint, const std::string& what) const;

  TrainerContext& context_;
};

}  // namespace lockstep
