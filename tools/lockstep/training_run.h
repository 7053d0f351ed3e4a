// What `lockstep train` and `lockstep evaluate` give a Trainer alike.
#pragma once

#include <unistd.h>

#include <memory>

#include "lockstep/train/printer_callback.h"
#include "lockstep/train/progress_callback.h"
#include "lockstep/train/trainer.h"
#include "tools/lockstep/training_task.h"

namespace lockstep {

/// A progress bar with the logs above it on a terminal, else the logs alone.
inline std::shared_ptr<TrainerCallback> log_callback(const TrainingArguments& args) {
  const bool has_bar = args.disable_tqdm ? !*args.disable_tqdm : ::isatty(STDERR_FILENO) == 1;
  if (has_bar) return std::make_shared<ProgressCallback>(print_line);
  return std::make_shared<PrinterCallback>(print_line);
}

inline TrainerOptions trainer_options(const TrainingTask& task, const TrainingArguments& args) {
  TrainerOptions options;
  options.model = task.model;
  options.args = args;
  options.data_collator = task.collate;
  options.compute_metrics = task.metrics;
  return options;
}

}  // namespace lockstep
