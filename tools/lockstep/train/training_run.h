// The options of a Trainer that `lockstep train` and `lockstep evaluate` share.
#pragma once

#include <memory>
#include <ostream>

#include "lockstep/base/log.h"
#include "lockstep/train/printer_callback.h"
#include "lockstep/train/progress_callback.h"
#include "lockstep/train/trainer.h"
#include "tools/frame/command_streams.h"
#include "tools/lockstep/train/training_outlook.h"
#include "tools/lockstep/train/training_task.h"

namespace lockstep {

/// Writes whole lines to `out`, at once.
inline PrintLine print_to(std::ostream& out) {
  return [&out](const std::string& line) {
    out << (line.empty() || line.back() != '\n' ? line + '\n' : line) << std::flush;
  };
}

inline bool shows_bar(const TrainingArguments& args, const CommandStreams& streams) {
  return args.disable_tqdm ? !*args.disable_tqdm : streams.err_is_terminal;
}

inline ProgressBarOptions bars_on(const CommandStreams& streams) {
  ProgressBarOptions bars;
  bars.write = [&err = streams.err](std::string_view text) { err << text << std::flush; };
  if (!streams.err_is_terminal) bars.columns = 0;
  return bars;
}

/// On a terminal a progress bar with the logs above it, otherwise only the logs.
inline std::shared_ptr<TrainerCallback> log_callback(const TrainingArguments& args, const CommandStreams& streams) {
  if (shows_bar(args, streams)) return std::make_shared<ProgressCallback>(print_to(streams.out), bars_on(streams));
  return std::make_shared<PrinterCallback>(print_to(streams.out));
}

/// The start in a terminal, or in the log at level info; the time that is left where no bar shows it.
inline std::shared_ptr<TrainerCallback> outlook_callback(const TrainingArguments& args, const CommandStreams& streams) {
  TrainingOutlook::Say say_start;
  if (streams.err_is_terminal) {
    say_start = print_to(streams.err);
  } else if (log_enabled(LogLevel::Info)) {
    say_start = [](const std::string& line) { log_info("{}", line); };
  }
  return std::make_shared<TrainingOutlook>(
      say_start, shows_bar(args, streams) ? nullptr : TrainingOutlook::Say(print_to(streams.out)));
}

/// Names the command that shows a finished training: in a terminal, or in the log at level info.
inline void show_report_command(const std::string& output_dir, const CommandStreams& streams) {
  const std::string line = "To see this training as a page of charts: lockstep report " + output_dir;
  if (streams.err_is_terminal) {
    print_to(streams.err)(line);
  } else {
    log_info("{}", line);
  }
}

/// Prints what the task has to report before it starts, on rank 0.
inline void print_notes(const TrainingTask& task, const Trainer& trainer, const PrintLine& print) {
  if (!trainer.is_world_process_zero()) return;
  for (const std::string& line : {task.notice, task.text_length}) {
    if (!line.empty()) print(line);
  }
  for (const std::string& line : task.notes) print(line);
}

inline TrainerOptions trainer_options(const TrainingTask& task, const TrainingArguments& args,
                                      const CommandStreams& streams) {
  TrainerOptions options;
  options.model = task.model;
  options.args = args;
  options.print = print_to(streams.out);
  options.data_collator = task.collate;
  options.compute_metrics = task.metrics;
  options.metric_names = task.metric_names;
  options.data_arguments = task.data_arguments;
  options.facts = task.facts;
  options.warnings = task.warnings;
  return options;
}

}  // namespace lockstep
