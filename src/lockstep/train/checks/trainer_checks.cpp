#include "lockstep/train/checks/trainer_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text/nearest_name.h"
#include "lockstep/comm/factory.h"
#include "lockstep/train/early_stopping.h"

namespace lockstep {
namespace {

// An unknown engine is refused in a single process, too, because it would be refused with several ranks.
void check_backend(const TrainingArguments& args) {
  const std::string name = args.ddp_backend.value_or("");
  std::vector<std::string> names;
  for (const Engine& engine : available_engines()) names.emplace_back(engine.name);
  if (name.empty() || std::find(names.begin(), names.end(), name) != names.end()) return;
  std::string reason;
  for (const MissingEngine& missing : missing_engines()) {
    if (name == missing.name) reason = fmt::format(": not built: {}", missing.reason);
  }
  throw UsageError(fmt::format("ddp_backend: there is no engine '{}'{}{}", name, reason, did_you_mean(name, names)),
                   "training arguments", fmt::format("give one of {}, or leave it out", fmt::join(names, ", ")));
}

// Otherwise a misspelt metric_for_best_model would be found only after the first evaluation.
void check_best_metric(const TrainerOptions& options) {
  const TrainingArguments& args = options.args;
  const bool gives_unknown = options.compute_metrics && options.metric_names.empty() && !args.prediction_loss_only;
  if (!args.metric_for_best_model || !options.train_dataset || gives_unknown) return;
  std::vector<std::string> names{"loss"};
  if (!args.prediction_loss_only) {
    names.insert(names.end(), options.metric_names.begin(), options.metric_names.end());
  }
  const std::string wanted = best_model_metric(args);
  std::vector<std::string> known = names;
  for (const char* time : {"runtime", "samples_per_second", "steps_per_second"}) known.emplace_back(time);
  const auto is_it = [&](const std::string& name) { return with_eval_prefix(name) == wanted; };
  if (std::any_of(known.begin(), known.end(), is_it)) return;
  throw UsageError(fmt::format("metric_for_best_model: evaluations give no '{}'{}", *args.metric_for_best_model,
                               did_you_mean(*args.metric_for_best_model, names)),
                   "training arguments", fmt::format("give one of {}", fmt::join(names, ", ")));
}

}  // namespace

void check_trainer_options(const TrainerOptions& options) {
  if (static_cast<bool>(options.model) == static_cast<bool>(options.model_init)) {
    throw UsageError(options.model ? "a trainer cannot have both a model and a model_init" : "a trainer needs a model",
                     "Trainer", "give TrainerOptions::model, or model_init");
  }
  check_training_arguments(options.args);
  check_backend(options.args);
  check_best_metric(options);
  if (options.args.eval_strategy != "no" && !options.eval_dataset) {
    throw UsageError("eval_strategy " + options.args.eval_strategy + " needs evaluation data", "Trainer",
                     "give an evaluation dataset (--validation-file), or set eval_strategy to no");
  }
}

void check_trainer_model(const TrainerOptions& options) {
  if (!options.model) throw UsageError("model_init returned no model", "Trainer", "return a model");
  if (options.args.gradient_checkpointing && !options.model->recomputes_activations()) {
    throw UsageError(
        "gradient_checkpointing has no effect: the model keeps its activations", "Trainer",
        "leave it out; a program may give a model that recomputes them (ModelOptions::gradient_checkpointing)");
  }
}

}  // namespace lockstep
