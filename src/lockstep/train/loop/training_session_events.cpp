// TrainingSession: acts after an update or an epoch as the control's flags say, and ends the training.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <csignal>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/files/file_system.h"
#include "lockstep/checkpoint/checkpoint_search.h"
#include "lockstep/checkpoint/files/output_folder.h"
#include "lockstep/checkpoint/replica_check.h"
#include "lockstep/train/early_stopping.h"
#include "lockstep/train/log_text.h"
#include "lockstep/train/loop/training_session.h"

namespace lockstep {

void TrainingSession::log_evaluate_save() {
  TrainerControl& control = context_.control;
  if (std::exchange(control.should_log, false)) log_training_loss();
  if (std::exchange(control.should_evaluate, false) && context_.options.eval_dataset) evaluate(Evaluate::ToCompare);
  if (std::exchange(control.should_save, false)) save();
}

void TrainingSession::log_training_loss() {
  if (steps_since_log_ == 0) return;
  Logs logs{{"loss", loss_since_log_ / static_cast<double>(steps_since_log_)},
            {"grad_norm", last_norm_},
            {"learning_rate", last_learning_rate_}};
  loss_since_log_ = 0;
  steps_since_log_ = 0;
  context_.log(std::move(logs));
}

void TrainingSession::evaluate(Evaluate purpose) {
  Logs metrics;
  context_.evaluate(context_.options.eval_dataset, "eval", &TrainerCallback::on_evaluate, metrics);
  // If one rank alone stopped early, the others would wait for it.
  context_.agree_on_control();
  if (purpose == Evaluate::ToLook) return;
  const bool needs_best = args_.load_best_model_at_end || args_.metric_for_best_model ||
                          args_.save_strategy == "best" || args_.lr_scheduler_type == "reduce_lr_on_plateau";
  if (needs_best) keep_best(metrics);
}

void TrainingSession::keep_best(const Logs& metrics) {
  const std::string name = best_model_metric(args_);
  const std::optional<double> value = find_log(metrics, name);
  if (!value) {
    std::vector<std::string> names;
    for (const auto& [known, number] : metrics) names.push_back(known);
    throw UsageError("the evaluation has no " + name + ", which is to say which model is best", "metric_for_best_model",
                     fmt::format("give one of {}", fmt::join(names, ", ")));
  }
  schedule_->step_plateau(*value);
  TrainerState& state = context_.state;
  if (std::isnan(*value)) return;
  const bool is_better =
      !state.best_metric || (is_greater_better(args_) ? *value > *state.best_metric : *value < *state.best_metric);
  if (!is_better) return;
  state.best_metric = *value;
  // The best model must be kept to be useful: it is saved in the step that found it, for any save_steps.
  if (args_.save_strategy != "no" && (args_.load_best_model_at_end || args_.save_strategy == "best")) {
    state.best_global_step = state.global_step;
    state.best_model_checkpoint = checkpoint_path(args_.output_dir, state.global_step);
    context_.control.should_save = true;
  }
}

// The path that was recorded for the best checkpoint is wrong if the output folder was moved or is mounted elsewhere.
// The checkpoint is then looked for in output_dir, and in `beside`, the folder of the checkpoint that the training
// resumes from.
void TrainingSession::find_best_model(const std::string& beside) {
  std::string& recorded = context_.state.best_model_checkpoint;
  std::error_code ignored;
  if (recorded.empty() || std::filesystem::exists(recorded, ignored)) return;
  const std::filesystem::path name = std::filesystem::path(recorded).filename();
  for (const std::string& folder : {args_.output_dir, beside}) {
    const std::string here = (std::filesystem::path(folder) / name).string();
    if (folder.empty() || !std::filesystem::exists(here, ignored)) continue;
    context_.print(fmt::format("The best model is recorded as {}, which is not there: taking {}.", recorded, here));
    recorded = here;
    return;
  }
}

void TrainingSession::load_best_model() {
  find_best_model("");
  const std::string& folder = context_.state.best_model_checkpoint;
  if (folder.empty()) {
    throw Error("load_best_model_at_end, and no evaluation gave a best model", context_.where(),
                "evaluate at least once: make eval_steps smaller than the number of steps");
  }
  const NamedTensors weights = weights_of(*model_);
  if (context_.group) {
    open_checkpoint(folder, *context_.group).load_weights(weights);
    check_replicas_equal(*context_.group, weights, "weights of the best model, " + folder);
  } else {
    Checkpoint(folder).load_weights(weights);
  }
  context_.print(fmt::format("Loading best model from {} (score: {}).", folder,
                             python_number(context_.state.best_metric.value_or(0))));
}

TrainOutput TrainingSession::finish(double runtime_s) {
  engine_->finish();
  if (writer_) writer_->wait();
  if (args_.load_best_model_at_end && !stop_was_asked_) load_best_model();
  // If one checkpoint is kept, it is the best one; the last one was kept only for resuming.
  const std::optional<std::int64_t> best = context_.state.best_global_step;
  if (args_.save_total_limit == 1 && best && context_.rank() == 0 && !stop_was_asked_) {
    OutputFolder(real_file_system(), args_.output_dir).rotate(1, *best, best);
  }

  TrainOutput output;
  output.global_step = context_.state.global_step;
  output.training_loss = losses_of_session_ == 0 ? 0 : loss_of_session_ / static_cast<double>(losses_of_session_);
  output.stopped_by_signal = stop_was_asked_ ? SIGTERM : 0;
  // Only this session's steps and training time count, without evaluating and saving.
  const double training_s = std::max(runtime_s - context_.other_time_s, 1e-9);
  const auto steps = static_cast<double>(output.global_step - first_step_);
  output.metrics = {{"train_runtime", rounded(runtime_s, 4)},
                    {"train_samples_per_second", rounded(static_cast<double>(samples_of_session_) / training_s, 3)},
                    {"train_steps_per_second", rounded(steps / training_s, 3)},
                    {"total_flos", context_.state.total_flos},
                    {"train_loss", output.training_loss}};
  context_.log(output.metrics);
  context_.keep_callback_states(context_.control);
  output.metrics.emplace_back("epoch", context_.state.epoch);
  context_.notify(&TrainerCallback::on_train_end);
  return output;
}

}  // namespace lockstep
