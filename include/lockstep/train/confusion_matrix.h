#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace lockstep {

/// How precision, recall and F1 of several classes become one number, as in scikit-learn.
enum class Average {
  Binary,    ///< those of class 1 alone; for two classes
  Macro,     ///< the mean over the classes that occur, among labels or predictions
  Weighted,  ///< the mean over classes, weighted by how often each is the label
};

/// How often which class was predicted for which label: all that metrics of classification follow from. The counts of
/// several ranks, added up, are those of one process. Where a metric divides by zero it is 0, as in scikit-learn.
class ConfusionMatrix {
 public:
  /// @throws Error  if `classes` is not from 1 to 65536
  explicit ConfusionMatrix(std::int64_t classes);

  /// Counts. Both int64 and of one shape; labels -100 count for nothing.
  /// @throws Error  if shapes or dtypes differ, or a class is outside [0, classes)
  void add(const at::Tensor& predictions, const at::Tensor& labels);
  /// [label, prediction] int64, on the CPU. Add up those of all ranks in place.
  at::Tensor& counts() { return counts_; }

  std::int64_t total() const;
  double accuracy() const;
  /// @throws Error  for Binary with another number of classes than two
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
