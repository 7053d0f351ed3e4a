#pragma once

#include <cstdint>
#include <memory>

#include "lockstep/train/trainer_callback.h"

namespace lockstep {

class MetricsLog;
class PhaseClock;

/// Writes `metrics.jsonl` into the output folder, on rank 0: what is trained and where, the arguments, every log, and
/// with each log the time by phase since the previous one and the memory in use. Phases: "data" (from the end of an
/// update to the next batch), "compute" (forward, backward, communication within it), "optimizer", "evaluate", "save".
class MetricsLogCallback : public TrainerCallback {
 public:
  /// @param world_size  ranks of the job; 0: of the default group if it exists, else 1
  /// @param samples_per_step  of all ranks together, for samples per second; 0: from the arguments
  explicit MetricsLogCallback(int world_size = 0, std::int64_t samples_per_step = 0);
  ~MetricsLogCallback() override;

  void on_train_begin(TrainerEvent& event) override;
  void on_train_end(TrainerEvent& event) override;
  void on_step_begin(TrainerEvent& event) override;
  void on_pre_optimizer_step(TrainerEvent& event) override;
  void on_optimizer_step(TrainerEvent& event) override;
  void on_step_end(TrainerEvent& event) override;
  void on_evaluate(TrainerEvent& event) override;
  void on_save(TrainerEvent& event) override;
  void on_log(TrainerEvent& event) override;

 private:
  void open_log(const TrainerEvent& event);
  void write_phases(std::int64_t step);

  int world_size_;
  std::int64_t samples_per_step_;
  std::unique_ptr<MetricsLog> log_;  // on rank 0, from the training's start
  std::unique_ptr<PhaseClock> clock_;
  std::int64_t last_step_ = 0;  // step of the last "phases"
  bool has_ended_ = false;      // the training; evaluations may follow
};

}  // namespace lockstep
