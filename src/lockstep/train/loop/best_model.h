#pragma once

#include <string>

#include "lockstep/train/trainer_context.h"

namespace lockstep {

/// Finds the best model of a training: by which metric, and which checkpoint has it. The record is in TrainerState.
class BestModel {
 public:
  /// @param context  outlives this object
  explicit BestModel(TrainerContext& context) : context_(context) {}

  /// Whether evaluations are compared at all.
  bool is_sought() const;
  /// The value that decides. @throws UsageError  if `metrics` lacks it; it lists those that there are
  double value_in(const Logs& metrics) const;
  /// Records this model if it is the best so far, and then requests a checkpoint if the arguments keep the best.
  void compare(double value);

  /// Corrects the record if the output folder was moved, or is mounted elsewhere: looks for the checkpoint in
  /// output_dir, and in `beside`, the folder of the checkpoint that the training resumes from.
  void find(const std::string& beside);
  /// Loads the weights of the best checkpoint into the model; warns, and leaves the model as it is, if no evaluation
  /// found a best one. Collective. @throws Error  if the checkpoint cannot be read
  void load();

 private:
  TrainerContext& context_;
  bool has_warned_ = false;  // that the metric is NaN
};

}  // namespace lockstep
