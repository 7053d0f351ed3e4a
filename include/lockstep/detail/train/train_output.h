#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "lockstep/train/trainer_callback.h"

namespace lockstep {

/// The result of Trainer::train.
struct TrainOutput {
  std::int64_t global_step = 0;  ///< updates made, with those of earlier calls that this one resumed
  double training_loss = 0;      ///< mean over all updates of this call
  Logs metrics;  ///< train_runtime (seconds), train_samples_per_second, train_steps_per_second, total_flos, ...
  /// SIGINT if Ctrl-C ended the training, SIGTERM if that signal or a batch system's warning did, such as SIGUSR1; else
  /// 0. Exit with 128 + this: scripts queue a job again that ends with 143.
  int stopped_by_signal = 0;
  int received_signal = 0;  ///< the signal itself, for a message
  /// Set if the checkpoint to resume from already has the requested number of steps: nothing was trained, and the model
  /// has the checkpoint's weights. Empty if something was trained.
  std::string already_complete;
};

/// The result of Trainer::predict.
struct PredictionOutput {
  at::Tensor predictions;  ///< [n, ...], in the order of the dataset
  at::Tensor label_ids;    ///< [n, ...]; undefined if the dataset has no labels
  Logs metrics;
};

}  // namespace lockstep
