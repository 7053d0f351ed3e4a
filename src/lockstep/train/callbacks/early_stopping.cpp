#include "lockstep/train/early_stopping.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/files/json_number.h"

namespace lockstep {

std::string with_eval_prefix(const std::string& metric) {
  return metric.rfind("eval_", 0) == 0 ? metric : "eval_" + metric;
}

std::string best_model_metric(const TrainingArguments& args) {
  return with_eval_prefix(args.metric_for_best_model.value_or("loss"));
}

bool is_greater_better(const TrainingArguments& args) {
  if (args.greater_is_better) return *args.greater_is_better;
  const std::string metric = best_model_metric(args);
  return metric.size() < 4 || metric.compare(metric.size() - 4, 4, "loss") != 0;
}

EarlyStoppingCallback::EarlyStoppingCallback(int patience, double threshold)
    : patience_(patience), threshold_(threshold) {
  if (patience < 1 || !(threshold >= 0)) {
    throw Error(fmt::format("early stopping cannot have patience {} and threshold {}", patience, threshold),
                "EarlyStoppingCallback", "give a patience of at least 1 and a threshold of at least 0");
  }
}

void EarlyStoppingCallback::on_train_begin(TrainerEvent& event) {
  if (event.args.eval_strategy != "no") return;
  throw UsageError("early stopping needs evaluations", "EarlyStoppingCallback", "set eval_strategy to steps or epoch");
}

void EarlyStoppingCallback::on_evaluate(TrainerEvent& event) {
  const std::string metric = best_model_metric(event.args);
  const std::optional<double> value = event.logs != nullptr ? find_log(*event.logs, metric) : std::nullopt;
  if (!value) {
    throw UsageError("early stopping needs " + metric + ", but the evaluation has no such metric",
                     "EarlyStoppingCallback", "set metric_for_best_model to a metric that is computed");
  }
  // Compared with the best value so far, not with the last sufficient improvement: several steps that are each too
  // small do not add up.
  const bool is_greater = is_greater_better(event.args);
  const bool is_better = best_ && (is_greater ? *value > *best_ : *value < *best_);
  counter_ = !best_ || (is_better && std::abs(*value - *best_) > threshold_) ? 0 : counter_ + 1;
  constexpr double kWorst = std::numeric_limits<double>::infinity();
  if (!best_) best_ = std::isnan(*value) ? (is_greater ? -kWorst : kWorst) : *value;
  if (is_better) best_ = value;
  if (counter_ >= patience_) event.control.should_training_stop = true;
}

std::string EarlyStoppingCallback::state() const {
  const nlohmann::json json{
      {"args", {{"early_stopping_patience", patience_}, {"early_stopping_threshold", threshold_}}},
      {"attributes",
       {{"early_stopping_patience_counter", counter_},
        {"best", best_ ? json_of_number(*best_) : nlohmann::json(nullptr)}}}};
  return json.dump();
}

void EarlyStoppingCallback::load_state(const std::string& state) {
  const nlohmann::json attributes = nlohmann::json::parse(state).at("attributes");
  counter_ = whole_number_at<int>(attributes, "early_stopping_patience_counter", "the state of EarlyStoppingCallback");
  best_ = number_in(attributes.value("best", nlohmann::json(nullptr)));
}

}  // namespace lockstep
