#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/checkpoint/checkpoint_writer.h"
#include "lockstep/checkpoint/generators.h"
#include "lockstep/checkpoint/state/world_remap.h"
#include "lockstep/train/loop/training_parts.h"

namespace lockstep {

/// Saves one training, and continues one that was saved.
class TrainingCheckpoints {
 public:
  /// @param context, parts  outlive this object
  /// @param replicas  of this process, each on its own device if the model is on one
  TrainingCheckpoints(TrainerContext& context, TrainingParts& parts, std::int64_t replicas);

  /// Whether `resume_from_checkpoint` asks for one.
  static bool are_asked_for(const TrainingArguments& args);
  /// Continues from the checkpoint that `resume_from_checkpoint` asks for; does nothing if it asks for none.
  /// Collective.
  /// @throws Error, UsageError  if that checkpoint cannot be continued
  void resume();
  /// The checkpoint that this training continues; empty if it started from the beginning.
  const std::string& taken_up() const { return taken_up_; }
  /// What is set otherwise than in that checkpoint, one line each.
  const std::vector<std::string>& changes() const { return changes_; }

  struct SaveOptions {
    bool epoch_ended = false;  ///< callbacks have seen the end of this epoch, so a resumed training starts the next
    bool wait = false;         ///< return only when it is published, because the process is about to end
  };
  /// Saves the present state, unless this step's is saved already. Collective.
  void save(SaveOptions options);
  /// The ranks have changed: the next checkpoint is written by those that are there now.
  void forget_ranks() { writer_.reset(); }
  /// The last step that was saved, which all ranks must know alike; -1: none.
  std::int64_t saved_step() const { return saved_step_; }
  void set_saved_step(std::int64_t step) { saved_step_ = step; }
  /// Waits for a checkpoint that is being written, and throws its error.
  void wait();

 private:
  CheckpointContent content(bool epoch_ended);
  void take_up(const Checkpoint& checkpoint);
  void take_up_place(const Checkpoint& checkpoint, const ResumeState& own);
  void take_up_state(const Checkpoint& checkpoint, TrainerState state);
  /// Updates of this run, including those before the checkpoint.
  std::int64_t steps_in_all(const Checkpoint& checkpoint, const TrainerState& saved, bool is_remapped) const;
  std::vector<std::string> changes_since(const Checkpoint& checkpoint) const;

  TrainerContext& context_;
  TrainingParts& parts_;
  Generators generators_;
  std::unique_ptr<CheckpointWriter> writer_;
  std::int64_t saved_step_ = -1;
  std::string taken_up_;
  std::vector<std::string> changes_;
};

}  // namespace lockstep
