#pragma once

#include <cstdint>
#include <string>

#include "lockstep/train/loop/training_plan.h"
#include "lockstep/train/trainable_model.h"

namespace lockstep {

/// What a training will write, from the sizes that are known before it starts.
struct SavedBytes {
  std::int64_t weights = 0;          ///< parameters and buffers: the trained model, and a part of each checkpoint
  std::int64_t optimizer_state = 0;  ///< the other large part of a checkpoint

  /// @param trainable_bytes  of parameters with gradients, of which AdamW keeps two averages
  static SavedBytes of(const TrainingArguments& args, std::int64_t weights, std::int64_t trainable_bytes);
};

/// The sizes of a model that is about to be trained.
SavedBytes saved_bytes(const TrainingArguments& args, TrainableModel& model);

/// A warning if the checkpoints that are kept at a time, and the trained model, will not fit into `free_bytes`; empty
/// if they will.
/// @throws Error  naming the folder, if not even the trained model and one checkpoint's weights fit: the training's
/// result would be lost
std::string check_disk_room(const TrainingArguments& args, const TrainingPlan& plan, const SavedBytes& saved,
                            std::int64_t free_bytes);

/// Bytes that this user may still write into `folder`, or into the nearest folder above it that exists; the largest
/// number if the file system does not say.
std::int64_t free_bytes_of(const std::string& folder);

}  // namespace lockstep
