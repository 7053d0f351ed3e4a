// The options of a Trainer that `lockstep train` and `lockstep evaluate` share.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <memory>

#include "lockstep/base/log.h"
#include "lockstep/train/printer_callback.h"
#include "lockstep/train/progress_callback.h"
#include "lockstep/train/trainer.h"
#include "tools/lockstep/train/training_outlook.h"
#include "tools/lockstep/train/training_task.h"

namespace lockstep {

inline bool shows_bar(const TrainingArguments& args) {
  return args.disable_tqdm ? !*args.disable_tqdm : ::isatty(STDERR_FILENO) == 1;
}

/// On a terminal a progress bar with the logs above it, otherwise only the logs.
inline std::shared_ptr<TrainerCallback> log_callback(const TrainingArguments& args) {
  if (shows_bar(args)) return std::make_shared<ProgressCallback>(print_line);
  return std::make_shared<PrinterCallback>(print_line);
}

/// The start in a terminal, or in the log at level info; the time that is left where no bar shows it.
inline std::shared_ptr<TrainerCallback> outlook_callback(const TrainingArguments& args) {
  TrainingOutlook::Say say_start;
  if (::isatty(STDERR_FILENO) == 1) {
    say_start = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  } else if (log_enabled(LogLevel::Info)) {
    say_start = [](const std::string& line) { log_info("{}", line); };
  }
  return std::make_shared<TrainingOutlook>(say_start, shows_bar(args) ? nullptr : TrainingOutlook::Say(print_line));
}

/// Prints what the task has to report before it starts, on rank 0.
inline void print_notes(const TrainingTask& task, const Trainer& trainer) {
  if (!trainer.is_world_process_zero()) return;
  for (const std::string& line : {task.notice, task.text_length}) {
    if (!line.empty()) print_line(line);
  }
}

inline TrainerOptions trainer_options(const TrainingTask& task, const TrainingArguments& args) {
  TrainerOptions options;
  options.model = task.model;
  options.args = args;
  options.data_collator = task.collate;
  options.compute_metrics = task.metrics;
  options.metric_names = task.metric_names;
  options.data_arguments = task.data_arguments;
  options.warnings = task.warnings;
  return options;
}

}  // namespace lockstep
