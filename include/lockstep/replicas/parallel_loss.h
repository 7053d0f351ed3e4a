#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "lockstep/replicas/data_parallel.h"
#include "lockstep/tensor/loss_sum.h"

namespace lockstep {

/// The losses of one batch, each computed on the device of its chunk.
class ReplicaLosses {
 public:
  ReplicaLosses(at::Tensor sums, at::Tensor counts) : sums_(std::move(sums)), counts_(std::move(counts)) {}

  /// Σloss / Σcount over all replicas, a scalar: the loss of the whole batch and its gradient, for any chunks. NaN if
  /// the total count is 0.
  at::Tensor mean() const;
  /// Σloss, a scalar.
  at::Tensor sum() const;
  /// [replicas]: each replica's own mean, as PyTorch's DataParallel returns losses. Their mean is the batch's loss only
  /// if all replicas have the same count.
  at::Tensor per_replica() const;

  const at::Tensor& sums() const { return sums_; }      ///< [replicas], part of the graph
  const at::Tensor& counts() const { return counts_; }  ///< [replicas]: samples or tokens

 private:
  at::Tensor sums_;
  at::Tensor counts_;
};

namespace detail {

/// @throws Error  unless each of the two has exactly one element
LossSum checked_loss(const at::Tensor& sum, const at::Tensor& count);
/// The LossSum of a mean over `samples`. @throws Error  unless `mean` has exactly one element, or if `samples` is
/// negative
LossSum checked_loss_of_mean(const at::Tensor& mean, std::int64_t samples);
ReplicaLosses losses_of(const LossSum& gathered);

template <typename Result>
LossSum loss_of_chunk(const Result& result, std::int64_t samples) {
  if constexpr (std::is_same_v<Result, c10::IValue>) {
    return checked_loss_of_mean(result.toTensor(), samples);
  } else if constexpr (std::is_convertible_v<const Result&, const at::Tensor&>) {
    return checked_loss_of_mean(result, samples);
  } else {
    return checked_loss(result.sum, result.count);
  }
}

}  // namespace detail

/// A loss for parallel_loss, if the module's forward itself returns the mean loss of its chunk.
inline constexpr auto own_loss = [](auto& replica, auto&... chunk) { return call_forward(replica, chunk...); };

/// Computes each loss on its replica: only the loss leaves the replica, not the output.
///
///     auto loss = lockstep::parallel_loss(dp, [](auto& model, const auto& batch) {
///       return model->loss(model->forward(batch), batch);
///     }, batch);
///     loss.mean().backward();
///
/// @param loss  called with a replica and the chunk of each argument. It returns a struct with the tensors `sum`, a
/// scalar of the graph, and `count`, the number of samples or tokens in the sum. It may instead return a scalar, the
/// mean loss of the chunk's samples, which is weighted by the number of samples in the chunk. If samples have different
/// weights (class weights, an ignored label, tokens), only the struct is exact
/// @throws Error  if `sum`, `count` or the scalar does not have exactly one element; the exception of a replica, with
/// its number and device
template <typename ModuleType, typename Loss, typename... Args>
ReplicaLosses parallel_loss(DataParallel<ModuleType>& dp, Loss&& loss, const Args&... args) {
  return detail::losses_of(dp.apply(
      [&loss, dim = dp.dim()](ModuleType& replica, auto&... chunk) {
        const std::int64_t samples = LossHint::samples_of(std::tie(chunk...), dim);
        return detail::loss_of_chunk(loss(replica, chunk...), samples);
      },
      args...));
}

}  // namespace lockstep
