#include "lockstep/train/loop/best_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/checkpoint_search.h"
#include "lockstep/train/early_stopping.h"
#include "lockstep/train/log_text.h"
#include "lockstep/train/weights/model_weights.h"

namespace lockstep {

bool BestModel::is_sought() const {
  const TrainingArguments& args = context_.args();
  return args.load_best_model_at_end || args.metric_for_best_model || args.save_strategy == "best" ||
         args.lr_scheduler_type == "reduce_lr_on_plateau";
}

double BestModel::value_in(const Logs& metrics) const {
  const std::string name = best_model_metric(context_.args());
  if (const std::optional<double> value = find_log(metrics, name)) return *value;
  std::vector<std::string> names;
  for (const auto& [known, number] : metrics) names.push_back(known);
  throw UsageError("the evaluation has no " + name + ", which is to decide which model is best",
                   "metric_for_best_model", fmt::format("give one of {}", fmt::join(names, ", ")));
}

void BestModel::compare(double value) {
  const TrainingArguments& args = context_.args();
  if (std::isnan(value)) {
    if (std::exchange(has_warned_, true)) return;
    return context_.print(fmt::format(
        "warning: {} is NaN at step {}, so it does not show whether this model is the best. A correlation is NaN if "
        "all "
        "labels or all predictions are equal; a loss, if the weights or the data are not numbers. Look at the "
        "evaluation data, or choose another metric (metric_for_best_model)",
        best_model_metric(args), context_.state.global_step));
  }
  TrainerState& state = context_.state;
  const bool is_better =
      !state.best_metric || (is_greater_better(args) ? value > *state.best_metric : value < *state.best_metric);
  if (!is_better) return;
  state.best_metric = value;
  // The best model must be kept to be useful: it is saved in the step that found it, for any save_steps.
  if (args.save_strategy == "no" || !(args.load_best_model_at_end || args.save_strategy == "best")) return;
  state.best_global_step = state.global_step;
  state.best_model_checkpoint = checkpoint_path(args.output_dir, state.global_step);
  context_.control.should_save = true;
}

void BestModel::find(const std::string& beside) {
  std::string& recorded = context_.state.best_model_checkpoint;
  std::error_code ignored;
  if (recorded.empty() || std::filesystem::exists(recorded, ignored)) return;
  const std::filesystem::path name = std::filesystem::path(recorded).filename();
  for (const std::string& folder : {context_.args().output_dir, beside}) {
    const std::string here = (std::filesystem::path(folder) / name).string();
    if (folder.empty() || !std::filesystem::exists(here, ignored)) continue;
    context_.print(fmt::format("The best model is recorded as {}, which does not exist: taking {}.", recorded, here));
    recorded = here;
    return;
  }
}

void BestModel::load() {
  find("");
  const std::string& folder = context_.state.best_model_checkpoint;
  if (folder.empty()) {
    return context_.print(
        fmt::format("warning: load_best_model_at_end was set, but no evaluation found a best model: {}. The model "
                    "keeps the weights of the last step",
                    has_warned_ ? best_model_metric(context_.args()) + " was NaN each time"
                                : "there was none; make eval_steps smaller than the number of steps"));
  }
  const Checkpoint best = context_.group ? open_checkpoint(folder, *context_.group) : Checkpoint(folder);
  ModelWeights(context_).load(best, "weights of the best model, " + folder);
  context_.print(fmt::format("Loading best model from {} (score: {}).", folder,
                             python_number(context_.state.best_metric.value_or(0))));
}

}  // namespace lockstep
