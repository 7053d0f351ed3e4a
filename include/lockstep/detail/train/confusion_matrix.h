#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace lockstep {

/// How precision, recall and F1 of several classes are combined into one number, as in scikit-learn.
enum class Average {
  Binary,    ///< class 1 only; for two classes
  Macro,     ///< the mean over all classes that occur among labels or predictions
  Weighted,  ///< the mean over classes, weighted by how often each is the label
};

/// Counts how often each class was predicted for each label; all metrics of classification follow from these counts.
/// The counts of several ranks, added up, equal those of one process. A metric that divides by zero is 0, as in
/// scikit-learn.
class ConfusionMatrix {
 public:
  /// @throws Error  if `classes` is not from 1 to 65536
  explicit ConfusionMatrix(std::int64_t classes);

  /// Counts predictions. Both tensors are int64 and have one shape; labels -100 are left out.
  /// @throws Error  if shapes or dtypes differ, or a class is outside [0, classes)
  void add(const at::Tensor& predictions, const at::Tensor& labels);
  /// [label, prediction] int64, on the CPU. To combine ranks, add up their counts in place.
  at::Tensor& counts() { return counts_; }

  std::int64_t total() const;
  double accuracy() const;
  /// @throws Error  for Binary, unless there are two classes
  double precision(Average average) const;
  double recall(Average average) const;  ///< throws as precision
  double f1(Average average) const;      ///< throws as precision
  /// Matthews' correlation coefficient, for any number of classes (Gorodkin, 2004,
  /// doi:10.1016/j.compbiolchem.2004.09.006).
  double matthews_correlation() const;

 private:
  enum class Score { Precision, Recall, F1 };
  double averaged(Score score, Average average) const;

  std::int64_t classes_;
  at::Tensor counts_;
};

}  // namespace lockstep
