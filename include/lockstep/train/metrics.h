#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lockstep/train/confusion_matrix.h"

namespace lockstep {

/// Metrics by name, such as "accuracy".
using Metrics = std::map<std::string, double>;

/// What an evaluation gives to `ComputeMetrics`: of the whole dataset, in its order, each sample once, however many
/// ranks there are. On the CPU.
struct EvalPrediction {
  at::Tensor predictions;  ///< the model's outputs; undefined where the loss alone was evaluated
  at::Tensor label_ids;    ///< "labels"; undefined where there are none
  double loss = 0;         ///< Σloss / Σcount; NaN without labels
};

/// Makes metrics of an evaluation. Called on every rank with the same argument.
using ComputeMetrics = std::function<Metrics(const EvalPrediction&)>;

struct ClassificationMetricsOptions {
  /// Of accuracy, precision, recall, f1, matthews_correlation.
  std::vector<std::string> metrics = {"accuracy", "f1"};
  Average average = Average::Macro;  ///< of precision, recall and f1
};

/// Metrics of a classifier whose outputs are class scores [n, classes], or [n, length, classes] for tokens: the class
/// of the highest score against the label.
/// @throws Error  for an unknown name, with those that there are
ComputeMetrics classification_metrics(ClassificationMetricsOptions options = {});

/// "pearson" and "mse" of a model with one output [n] or [n, 1].
ComputeMetrics regression_metrics();

/// "perplexity" of a language model: e to the loss per token. @return  infinity where that is too large for a double
ComputeMetrics language_modeling_metrics();

/// Pearson's correlation coefficient of two tensors of one size, in double; NaN where either is constant.
/// @throws Error  if the sizes differ or there is nothing
double pearson_correlation(const at::Tensor& x, const at::Tensor& y);

}  // namespace lockstep
