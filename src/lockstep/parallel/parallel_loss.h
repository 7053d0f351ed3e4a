#pragma once

#include <ATen/core/Tensor.h>

#include <type_traits>
#include <utility>

#include "lockstep/parallel/data_parallel.h"

namespace lockstep {

/// The losses of one batch, each computed where its chunk was.
class ReplicaLosses {
 public:
  ReplicaLosses(at::Tensor sums, at::Tensor counts) : sums_(std::move(sums)), counts_(std::move(counts)) {}

  /// Σloss / Σcount over all replicas, a scalar: the loss of the whole batch, and its gradient, however the batch was
  /// cut. NaN where nothing counts.
  at::Tensor mean() const;
  /// Σloss, a scalar.
  at::Tensor sum() const;
  /// [replicas]: each replica's own mean, as PyTorch's DataParallel returns losses. The mean of these is the batch's
  /// only where all replicas count the same.
  at::Tensor per_replica() const;

  const at::Tensor& sums() const { return sums_; }      ///< [replicas], of the graph
  const at::Tensor& counts() const { return counts_; }  ///< [replicas]: samples or tokens

 private:
  at::Tensor sums_;
  at::Tensor counts_;
};

namespace detail {

struct SumAndCount {
  at::Tensor sum;
  at::Tensor count;
  template <typename Visit>
  void visit_tensors(Visit&& visit) const {
    visit(sum);
    visit(count);
  }
};

/// @throws Error  unless both are one number
SumAndCount checked_loss(const at::Tensor& sum, const at::Tensor& count);
ReplicaLosses losses_of(SumAndCount gathered);

}  // namespace detail

/// Computes the loss where the output is: no output leaves its replica, one number does.
///
///     auto loss = lockstep::parallel_loss(dp, [](auto& model, const auto& batch) {
///       return model->loss(model->forward(batch), batch);
///     }, batch);
///     loss.mean().backward();
///
/// @param loss  called with a replica and the chunk of each argument; returns a struct with tensors `sum`, a scalar of
/// the graph, and `count`, how many samples or tokens it sums over
/// @throws Error  if `sum` or `count` is not one number; what a replica threw, with its number and device
template <typename ModuleType, typename Loss, typename... Args>
ReplicaLosses parallel_loss(DataParallel<ModuleType>& dp, Loss&& loss, const Args&... args) {
  return detail::losses_of(dp.apply(
      [&loss](ModuleType& replica, auto&... chunk) {
        const auto result = loss(replica, chunk...);
        return detail::checked_loss(result.sum, result.count);
      },
      args...));
}

}  // namespace lockstep
