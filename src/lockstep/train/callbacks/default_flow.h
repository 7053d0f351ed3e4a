#pragma once

#include "lockstep/train/loop/training_plan.h"
#include "lockstep/train/trainer_callback.h"

namespace lockstep {

/// Sets the flags that logging_, eval_ and save_strategy require. The trainer's first callback.
class DefaultFlowCallback : public TrainerCallback {
 public:
  explicit DefaultFlowCallback(const TrainingPlan& plan) : plan_(plan) {}

  void on_step_end(TrainerEvent& event) override;
  void on_epoch_end(TrainerEvent& event) override;

 private:
  TrainingPlan plan_;
};

}  // namespace lockstep
