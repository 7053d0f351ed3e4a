#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/train/loop/training_checkpoints.h"
#include "lockstep/train/loop/training_parts.h"
#include "lockstep/train/loop/training_update.h"
#include "lockstep/train/survival/training_stage.h"

namespace lockstep {

/// Where a training is: its stage, what was so when the stage began, and what another rank needs to continue from
/// there.
class SessionState {
 public:
  /// @param context, parts, checkpoints, update  outlive this object
  SessionState(TrainerContext& context, TrainingParts& parts, TrainingCheckpoints& checkpoints, TrainingUpdate& update)
      : context_(context), parts_(parts), checkpoints_(checkpoints), update_(update) {}

  /// The stage that comes next, or is under way.
  Stage stage() const { return stage_; }
  /// The stage has been done.
  void end_stage() { stage_ = stage_after(stage_, view()); }
  /// What needs the output folder in this stage; empty: nothing that could not be kept for later.
  std::string use_of_folder() const;

  /// What stages tell those that follow.
  struct Notes {
    std::int64_t first_step = 0;  ///< first step of this session
    bool epoch_ended = false;     ///< on_epoch_end of this epoch was called
    bool joiner_waits = false;    ///< a process wants to join
    bool evaluated = false;       ///< in this round of stages
  };
  Notes& notes() { return notes_; }
  const Notes& notes() const { return notes_; }

  /// Keeps what a stage changes before it is certain that it ends, but for buffers.
  void note_place();
  void note_buffers() { buffers_before_ = copies_of_buffers(); }
  const std::vector<at::Tensor>& buffers_before() const { return buffers_before_; }
  /// As they were when the stage began.
  void restore_control() { context_.control = control_before_; }
  void restore_buffers();
  /// Goes back to the epoch and the sample with which the stage began.
  void return_to_place();
  /// Moves the loaders to the sample with which the stage began. @param further  micro-batches behind it
  void move_loaders(std::int64_t further = 0);

  const std::vector<at::Tensor>& buffers();
  std::vector<at::Tensor> copies_of_buffers();
  /// Weights that are not trained.
  std::vector<at::Tensor> untrained() const;

  /// What another rank needs to continue like this one, beside weights and optimizer, as text.
  /// @param purpose  of the training: see TrainingMemory. @param has_history  of the log
  std::string passed_on(const std::string& purpose, bool has_history = true);
  /// Takes that over. @return  the purpose
  std::string take_over(const std::string& text);

 private:
  StageView view() const;

  TrainerContext& context_;
  TrainingParts& parts_;
  TrainingCheckpoints& checkpoints_;
  TrainingUpdate& update_;
  Stage stage_ = Stage::Begin;
  Notes notes_;
  // As they were when the stage began.
  std::int64_t epoch_before_ = 0;
  std::int64_t micro_batch_before_ = 0;
  TrainerControl control_before_;
  std::vector<at::Tensor> buffers_before_;
  std::optional<std::vector<at::Tensor>> buffers_;  // of the model, once somebody has asked
};

}  // namespace lockstep
