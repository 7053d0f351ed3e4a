#include "lockstep/train/reporting.h"

#include <unistd.h>

#include <algorithm>
#include <memory>

#include "lockstep/train/metrics_log_callback.h"
#include "lockstep/train/progress_callback.h"
#include "lockstep/train/tensorboard_callback.h"

namespace lockstep {

void add_reporting(TrainerOptions& options) {
  const TrainingArguments& args = options.args;
  if (!args.disable_tqdm.value_or(::isatty(STDERR_FILENO) == 0)) {
    options.callbacks.push_back(std::make_shared<ProgressCallback>(options.print));
    options.print_logs = false;
  }
  const int world_size = options.process_group ? options.process_group->world_size() : 0;
  options.callbacks.push_back(std::make_shared<MetricsLogCallback>(world_size));
  const auto asks_for = [&](const char* name) {
    return std::find(args.report_to.begin(), args.report_to.end(), name) != args.report_to.end();
  };
  if (asks_for("tensorboard") || asks_for("all")) options.callbacks.push_back(std::make_shared<TensorBoardCallback>());
}

}  // namespace lockstep
