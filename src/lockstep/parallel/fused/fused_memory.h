#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/optim/kernels/kernels.h"
#include "lockstep/parallel/reducer/reducer.h"

namespace lockstep {

/// One bucket of a fused step, on this rank.
struct FusedBucket {
  StepBucket gradients;
  at::Tensor weights;      ///< laid out as the gradients; the parameters are views of it
  std::int64_t begin = 0;  ///< elements [begin, end) are this rank's to update
  std::int64_t end = 0;
};

/// Where the bucket's parameter `index` lies in its weights: a tensor of these sizes.
at::Tensor weights_place(const FusedBucket& bucket, std::size_t index, at::IntArrayRef sizes);

/// How gradients and weights of fused buckets go from rank to rank. In one step, in this order on every rank:
/// `begin_reduction` for each bucket; `gradients` for each bucket, any number of times; `publish` for each bucket whose
/// owned weights were updated, on every rank the same ones; `finish` once.
class FusedMemory {
 public:
  virtual ~FusedMemory() = default;
  /// True where all ranks of the host have the same memory for weights.
  virtual bool shares_weights() const = 0;
  /// This rank has filled the bucket: starts to bring all ranks' gradients here. The same order on every rank.
  /// @return  null where there is nothing to wait for
  virtual std::shared_ptr<Work> begin_reduction(std::size_t bucket) = 0;
  /// Where the sum of all ranks' gradients in the owned elements comes from: `sources` point to element 0.
  virtual GradientSource gradients(std::size_t bucket) = 0;
  /// Runs `body`, which reads gradients and writes the owned weights.
  virtual void access(const std::function<void()>& body) = 0;
  /// True where a pass over `gradients` with `zero` leaves zeros in the buckets.
  virtual bool zeroes_buckets() const = 0;
  /// Every rank has multiplied its gradients in elements [begin, end) of the bucket by `factor`: so are their sums.
  virtual void follow_scaling(std::size_t bucket, std::int64_t begin, std::int64_t end, double factor) = 0;
  virtual void publish(std::size_t bucket) = 0;
  /// Returns when all weights are up to date here, and nobody reads this rank's gradients any more.
  virtual void finish() = 0;
};

/// Chooses the way for these buckets, gives them memory for weights and moves the parameters there: rank 0's values
/// where memory is shared. Collective.
/// @param may_share  false: every rank keeps weights of its own, even where the engine could share them
/// @throws Error  if memory is short on some rank; the parameters then stand as they were
std::unique_ptr<FusedMemory> make_fused_memory(std::vector<FusedBucket>& buckets, const Reducer& reducer,
                                               Communicator& communicator, bool may_share);

}  // namespace lockstep
