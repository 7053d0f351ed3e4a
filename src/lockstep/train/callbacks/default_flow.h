#pragma once

#include "lockstep/train/callbacks/trainer_callback.h"
#include "lockstep/train/loop/training_plan.h"

namespace lockstep {

/// Sets the flags that logging_, eval_ and save_strategy ask for. The trainer's first callback.
class DefaultFlowCallback : public TrainerCallback {
 public:
  explicit DefaultFlowCallback(const TrainingPlan& plan) : plan_(plan) {}

  void on_step_end(TrainerEvent& event) override;
  void on_epoch_end(TrainerEvent& event) override;

 private:
  TrainingPlan plan_;
};

}  // namespace lockstep
