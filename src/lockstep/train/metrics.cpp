#include "lockstep/train/metrics.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text/nearest_name.h"

namespace lockstep {
namespace {

using OneMetric = double (*)(const ConfusionMatrix&, Average);

const std::vector<std::pair<std::string, OneMetric>>& known_classification_metrics() {
  static const std::vector<std::pair<std::string, OneMetric>> known{
      {"accuracy", [](const ConfusionMatrix& m, Average) { return m.accuracy(); }},
      {"precision", [](const ConfusionMatrix& m, Average average) { return m.precision(average); }},
      {"recall", [](const ConfusionMatrix& m, Average average) { return m.recall(average); }},
      {"f1", [](const ConfusionMatrix& m, Average average) { return m.f1(average); }},
      {"matthews_correlation", [](const ConfusionMatrix& m, Average) { return m.matthews_correlation(); }},
  };
  return known;
}

OneMetric find_metric(const std::string& name) {
  std::vector<std::string> names;
  for (const auto& [known, compute] : known_classification_metrics()) {
    if (known == name) return compute;
    names.push_back(known);
  }
  throw UsageError("there is no metric '" + name + "'" + did_you_mean(name, names), "metrics of classification",
                   fmt::format("give some of {}", fmt::join(names, ", ")));
}

void require_predictions(const EvalPrediction& evaluation, const char* who) {
  if (evaluation.predictions.defined() && evaluation.label_ids.defined()) return;
  throw Error("there are no predictions with labels to compare", who,
              "evaluate a dataset with labels, without prediction_loss_only");
}

double share(double part, double whole) { return whole == 0 ? 0 : part / whole; }

// The rank of each value, from 1; equal values share the mean of their ranks.
at::Tensor ranks_of(const at::Tensor& values) {
  const auto [sorted, order] = values.sort();
  const std::int64_t count = values.numel();
  const auto* value = sorted.data_ptr<double>();
  const at::Tensor ranks = at::empty_like(values);
  for (std::int64_t begin = 0, end = 0; begin < count; begin = end) {
    for (end = begin + 1; end < count && value[end] == value[begin];) ++end;
    const double mean = 0.5 * static_cast<double>(begin + 1 + end);
    for (std::int64_t i = begin; i < end; ++i) {
      ranks.data_ptr<double>()[order.data_ptr<std::int64_t>()[i]] = mean;
    }
  }
  return ranks;
}

}  // namespace

ComputeMetrics classification_metrics(ClassificationMetricsOptions options) {
  std::vector<std::pair<std::string, OneMetric>> chosen;
  for (const std::string& name : options.metrics) chosen.emplace_back(name, find_metric(name));
  return [chosen, average = options.average](const EvalPrediction& evaluation) {
    require_predictions(evaluation, "metrics of classification");
    const at::Tensor& scores = evaluation.predictions;
    ConfusionMatrix matrix(scores.size(-1));
    matrix.add(scores.argmax(-1), evaluation.label_ids);
    Metrics out;
    for (const auto& [name, compute] : chosen) out[name] = compute(matrix, average);
    return out;
  };
}

ComputeMetrics regression_metrics() {
  return [](const EvalPrediction& evaluation) {
    require_predictions(evaluation, "metrics of regression");
    const at::Tensor got = evaluation.predictions.flatten().to(at::kDouble);
    const at::Tensor want = evaluation.label_ids.flatten().to(at::kDouble);
    return Metrics{{"pearson", pearson_correlation(got, want)},
                   {"spearmanr", spearman_correlation(got, want)},
                   {"mse", (got - want).square().mean().item<double>()}};
  };
}

ComputeMetrics multi_label_metrics() {
  return [](const EvalPrediction& evaluation) {
    require_predictions(evaluation, "metrics of several labels");
    if (evaluation.predictions.dim() != 2 || evaluation.predictions.sizes() != evaluation.label_ids.sizes()) {
      throw Error(
          fmt::format("labels of shape [{}] do not fit outputs of shape [{}]",
                      fmt::join(evaluation.label_ids.sizes(), ", "), fmt::join(evaluation.predictions.sizes(), ", ")),
          "metrics of several labels", "give a 0 or a 1 for each output of each row");
    }
    const at::Tensor got = evaluation.predictions > 0, want = evaluation.label_ids > 0.5;
    const at::Tensor hits = (got & want).sum(0).to(at::kDouble);
    const at::Tensor named = (got.sum(0) + want.sum(0)).to(at::kDouble);
    double macro = 0;
    for (std::int64_t label = 0; label < hits.numel(); ++label) {
      macro += share(2 * hits[label].item<double>(), named[label].item<double>());
    }
    return Metrics{{"f1_micro", share(2 * hits.sum().item<double>(), named.sum().item<double>())},
                   {"f1_macro", share(macro, static_cast<double>(hits.numel()))},
                   {"accuracy", (got == want).all(1).to(at::kDouble).mean().item<double>()}};
  };
}

ComputeMetrics language_modeling_metrics() {
  return [](const EvalPrediction& evaluation) { return Metrics{{"perplexity", std::exp(evaluation.loss)}}; };
}

double pearson_correlation(const at::Tensor& x, const at::Tensor& y) {
  if (x.numel() != y.numel() || x.numel() == 0) {
    throw Error(fmt::format("a correlation of {} values with {} is not defined", x.numel(), y.numel()),
                "pearson_correlation", "give one prediction for each label");
  }
  const at::Tensor dx = x.flatten().to(at::kDouble) - x.to(at::kDouble).mean();
  const at::Tensor dy = y.flatten().to(at::kDouble) - y.to(at::kDouble).mean();
  const double spread = std::sqrt(dx.dot(dx).item<double>()) * std::sqrt(dy.dot(dy).item<double>());
  return dx.dot(dy).item<double>() / spread;
}

double spearman_correlation(const at::Tensor& x, const at::Tensor& y) {
  return pearson_correlation(ranks_of(x.flatten().to(at::kDouble).contiguous()),
                             ranks_of(y.flatten().to(at::kDouble).contiguous()));
}

}  // namespace lockstep
