#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lockstep/detail/train/confusion_matrix.h"

namespace lockstep {

/// Metrics by name, such as "accuracy".
using Metrics = std::map<std::string, double>;

/// The input of `ComputeMetrics`: the results for the whole dataset in its order, with each sample once for any number
/// of ranks. Tensors are on the CPU.
struct EvalPrediction {
  at::Tensor predictions;  ///< the model's outputs; undefined if only the loss was evaluated
  at::Tensor label_ids;    ///< "labels"; undefined if the dataset has none
  double loss = 0;         ///< Σloss / Σcount; NaN without labels
};

/// Computes metrics of an evaluation. Called on every rank with the same argument. A metric "loss" takes the place of
/// the batches' loss.
using ComputeMetrics = std::function<Metrics(const EvalPrediction&)>;

struct ClassificationMetricsOptions {
  /// A selection of accuracy, precision, recall, f1, matthews_correlation.
  std::vector<std::string> metrics = {"accuracy", "f1"};
  Average average = Average::Macro;  ///< for precision, recall and f1
};

/// Metrics of a classifier that outputs class scores [n, classes], or [n, length, classes] for tokens. They compare the
/// class with the highest score with the label.
/// @throws Error  for an unknown name; it lists the known ones
ComputeMetrics classification_metrics(ClassificationMetricsOptions options = {});

/// "mse", "pearson" and "spearmanr" of a model with one output, [n] or [n, 1].
ComputeMetrics regression_metrics();

/// "f1_micro", "f1_macro" and "accuracy" of a model that gives each text several labels: outputs [n, labels] and labels
/// of 0 and 1 of the same shape. A label is predicted if its output is above 0, that is its probability above a half.
/// The accuracy is the share of texts whose labels are all right. F1 is 0 for a label that is neither there nor
/// predicted, as in scikit-learn. Reference: Hugging Face's run_classification, which reports F1 micro.
/// @throws Error  if the shapes differ
ComputeMetrics multi_label_metrics();

/// "perplexity" of a language model: e to the power of the loss per token. It is infinity if it is too large for a
/// double.
ComputeMetrics language_modeling_metrics();

/// Pearson's correlation coefficient of two tensors of equal size, in double; NaN if either is constant.
/// @throws Error  if the sizes differ or the tensors are empty
double pearson_correlation(const at::Tensor& x, const at::Tensor& y);
/// Spearman's rank correlation coefficient: Pearson's of the ranks, where equal values share the mean of theirs. Throws
/// as pearson_correlation.
double spearman_correlation(const at::Tensor& x, const at::Tensor& y);

}  // namespace lockstep
