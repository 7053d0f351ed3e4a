#include "lockstep/detail/train/confusion_matrix.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/data/padding_collator.h"

namespace lockstep {
namespace {

constexpr std::int64_t kMostClasses = 65536;

double ratio_or_zero(double part, double whole) { return whole == 0 ? 0 : part / whole; }

}  // namespace

ConfusionMatrix::ConfusionMatrix(std::int64_t classes) : classes_(classes) {
  if (classes < 1 || classes > kMostClasses) {
    throw Error(fmt::format("a confusion matrix needs at least one class, not {}", classes), "ConfusionMatrix",
                fmt::format("give 1 to {} classes", kMostClasses));
  }
  counts_ = at::zeros({classes, classes}, torch::kLong);
}

void ConfusionMatrix::add(const at::Tensor& predictions, const at::Tensor& labels) {
  if (predictions.sizes() != labels.sizes() || predictions.scalar_type() != at::kLong ||
      labels.scalar_type() != at::kLong) {
    throw Error(
        fmt::format("{} predictions ({}) do not fit {} labels ({})", predictions.numel(),
                    c10::toString(predictions.scalar_type()), labels.numel(), c10::toString(labels.scalar_type())),
        "ConfusionMatrix", "give one int64 class number of each for every sample");
  }
  const at::Tensor predicted = predictions.to(at::kCPU).contiguous();
  const at::Tensor wanted = labels.to(at::kCPU).contiguous();
  const auto* got = predicted.data_ptr<std::int64_t>();
  const auto* want = wanted.data_ptr<std::int64_t>();
  auto* counts = counts_.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < wanted.numel(); ++i) {
    if (want[i] == kIgnoredLabel) continue;
    if (want[i] < 0 || want[i] >= classes_ || got[i] < 0 || got[i] >= classes_) {
      throw Error(
          fmt::format("label {} and prediction {} of sample {} do not fit {} classes", want[i], got[i], i, classes_),
          "ConfusionMatrix", "give as many classes as the model's head has");
    }
    ++counts[want[i] * classes_ + got[i]];
  }
}

std::int64_t ConfusionMatrix::total() const { return counts_.sum().item<std::int64_t>(); }

double ConfusionMatrix::accuracy() const {
  return ratio_or_zero(counts_.trace().item<double>(), static_cast<double>(total()));
}

double ConfusionMatrix::averaged(Score score, Average average) const {
  if (average == Average::Binary && classes_ != 2) {
    throw Error(fmt::format("a binary average cannot be taken over {} classes", classes_), "ConfusionMatrix",
                "use macro or weighted with more than two classes");
  }
  const at::Tensor by_label = counts_.sum(1);
  const at::Tensor by_prediction = counts_.sum(0);
  double sum = 0;
  double weights = 0;
  for (std::int64_t c = average == Average::Binary ? 1 : 0; c < classes_; ++c) {
    const double hits = counts_[c][c].item<double>();
    const double labelled = by_label[c].item<double>();
    const double predicted = by_prediction[c].item<double>();
    if (average == Average::Macro && labelled + predicted == 0) continue;
    double value = 0;
    if (score == Score::Precision) value = ratio_or_zero(hits, predicted);
    if (score == Score::Recall) value = ratio_or_zero(hits, labelled);
    if (score == Score::F1) value = ratio_or_zero(2 * hits, labelled + predicted);
    const double weight = average == Average::Weighted ? labelled : 1;
    sum += weight * value;
    weights += weight;
  }
  return ratio_or_zero(sum, weights);
}

double ConfusionMatrix::precision(Average average) const { return averaged(Score::Precision, average); }
double ConfusionMatrix::recall(Average average) const { return averaged(Score::Recall, average); }
double ConfusionMatrix::f1(Average average) const { return averaged(Score::F1, average); }

double ConfusionMatrix::matthews_correlation() const {
  const at::Tensor by_label = counts_.sum(1).to(at::kDouble);
  const at::Tensor by_prediction = counts_.sum(0).to(at::kDouble);
  const auto n = static_cast<double>(total());
  const double covariance = counts_.trace().item<double>() * n - by_label.dot(by_prediction).item<double>();
  const double spread_of_labels = n * n - by_label.dot(by_label).item<double>();
  const double spread_of_predictions = n * n - by_prediction.dot(by_prediction).item<double>();
  return ratio_or_zero(covariance, std::sqrt(spread_of_labels) * std::sqrt(spread_of_predictions));
}

}  // namespace lockstep
