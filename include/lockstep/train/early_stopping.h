#pragma once

#include <optional>
#include <string>

#include "lockstep/train/trainer_callback.h"

namespace lockstep {

/// The name under which evaluations log `metric`: with "eval_" before it.
std::string with_eval_prefix(const std::string& metric);
/// Whether a larger value of the best model's metric is better: what `args` say; by default, yes unless its name ends
/// in "loss".
bool is_greater_better(const TrainingArguments& args);
/// The metric that selects the best model, with "eval_" before it.
std::string best_model_metric(const TrainingArguments& args);

/// Stops a training when the metric of the best model no longer improves.
///
/// A resumed training always restores its counter from the checkpoint; Hugging Face's does so only on request.
class EarlyStoppingCallback : public TrainerCallback {
 public:
  /// @param patience   evaluations without an improvement that are tolerated
  /// @param threshold  an improvement exceeds the best value so far by more than this
  /// @throws Error  if patience is not positive or threshold is negative
  explicit EarlyStoppingCallback(int patience = 1, double threshold = 0.0);

  /// @throws UsageError  if the arguments ask for no evaluation
  void on_train_begin(TrainerEvent& event) override;
  /// @throws UsageError  if the evaluation does not have the metric
  void on_evaluate(TrainerEvent& event) override;

  std::string name() const override { return "EarlyStoppingCallback"; }
  std::string state() const override;
  void load_state(const std::string& state) override;

 private:
  int patience_;
  double threshold_;
  int counter_ = 0;
  std::optional<double> best_;
};

}  // namespace lockstep
