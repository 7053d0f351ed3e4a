#pragma once

#include <memory>

#include "lockstep/detail/seeing/progress_bar_options.h"
#include "lockstep/train/printer_callback.h"
#include "lockstep/train/trainer_callback.h"

namespace lockstep {

class ProgressBar;

/// A progress bar over the updates of a training on rank 0, another over the batches of each evaluation, and the logs
/// as lines above it. Replaces PrinterCallback.
class ProgressCallback : public TrainerCallback {
 public:
  /// @param print  prints the lines of the logs
  /// @param bars  how bars are drawn; `total`, `done`, `prefix` and `leave` are set here
  explicit ProgressCallback(PrintLine print, ProgressBarOptions bars = {});
  /// Closes the bars.
  ~ProgressCallback() override;

  void on_train_begin(TrainerEvent& event) override;
  void on_step_end(TrainerEvent& event) override;
  void on_prediction_step(TrainerEvent& event) override;
  void on_evaluate(TrainerEvent& event) override;
  void on_predict(TrainerEvent& event) override;
  void on_log(TrainerEvent& event) override;
  void on_train_end(TrainerEvent& event) override;

 private:
  PrintLine print_;
  ProgressBarOptions bars_;
  std::unique_ptr<ProgressBar> training_;
  std::unique_ptr<ProgressBar> evaluation_;
};

}  // namespace lockstep
