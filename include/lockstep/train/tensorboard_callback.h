#pragma once

#include <memory>
#include <string>

#include "lockstep/train/trainer_callback.h"

namespace lockstep {

class TensorBoardWriter;

/// Writes the logs of rank 0 for TensorBoard: numbers under `train/...` and `eval/...`, the arguments as text.
class TensorBoardCallback : public TrainerCallback {
 public:
  TensorBoardCallback();
  ~TensorBoardCallback() override;

  void on_train_begin(TrainerEvent& event) override;
  void on_log(TrainerEvent& event) override;
  void on_train_end(TrainerEvent& event) override;

 private:
  std::unique_ptr<TensorBoardWriter> writer_;
  bool has_ended_ = false;  // the training; evaluations may follow
};

/// The folder of a training's event files: `logging_dir`, else TENSORBOARD_LOGGING_DIR, else
/// `OUTPUT_DIR/runs/<Mon><DD>_<HH>-<MM>-<SS>_<host>`, as Hugging Face's Trainer names it.
std::string tensorboard_folder(const TrainingArguments& args);

}  // namespace lockstep
