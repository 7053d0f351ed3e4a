#pragma once

#include <optional>
#include <string>

#include "lockstep/train/trainer_callback.h"

namespace lockstep {

/// The name of `metric` as evaluations log it: with "eval_" before it.
std::string with_eval_prefix(const std::string& metric);
/// Which way the best model's metric of `args` is better: what they say, or unless it ends in "loss".
bool is_greater_better(const TrainingArguments& args);
/// The metric that decides about the best model, with "eval_" before it.
std::string best_model_metric(const TrainingArguments& args);

/// Ends a training when the metric of the best model gets no better.
///
/// Unlike Hugging Face's, its counter is kept in checkpoints and taken up again, always.
class EarlyStoppingCallback : public TrainerCallback {
 public:
  /// @param patience   evaluations without an improvement that are put up with
  /// @param threshold  an improvement is more than this, against the best value so far
  /// @throws Error  if patience is not positive or threshold negative
  explicit EarlyStoppingCallback(int patience = 1, double threshold = 0.0);

  /// @throws UsageError  where the arguments ask for no evaluation
  void on_train_begin(TrainerEvent& event) override;
  /// @throws UsageError  if the evaluation has no such metric
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
