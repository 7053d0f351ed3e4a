#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/optim/kernels/kernels.h"
#include "lockstep/parallel/fused/fused_bucket.h"
#include "lockstep/parallel/reducer/gradient_buckets.h"

namespace lockstep {

/// Moves gradients and weights of fused buckets between ranks. Calls in one update, in one order on every rank:
/// `begin_reduction` for each bucket; `gradients` for each bucket, any number of times; `publish` for each bucket whose
/// owned weights were updated, the same buckets on every rank; `finish` once.
class FusedMemory {
 public:
  virtual ~FusedMemory() = default;
  /// True if all ranks of the host share one memory for weights.
  virtual bool shares_weights() const = 0;
  /// This rank has filled the bucket: starts to collect all ranks' gradients. Called in one order on every rank.
  /// @return  null if there is nothing to wait for
  virtual std::shared_ptr<Work> begin_reduction(std::size_t bucket) = 0;
  /// The source of the sum of all ranks' gradients in the owned elements: `sources` point to element 0.
  virtual GradientSource gradients(std::size_t bucket) = 0;
  /// Runs `body`, which reads gradients and writes the owned weights.
  virtual void access(const std::function<void()>& body) = 0;
  /// True if a pass over `gradients` with `zero` leaves zeros in the buckets.
  virtual bool zeroes_buckets() const = 0;
  /// Every rank has multiplied its gradients in elements [begin, end) of the bucket by `factor`; scales existing sums.
  virtual void follow_scaling(std::size_t bucket, std::int64_t begin, std::int64_t end, double factor) = 0;
  virtual void publish(std::size_t bucket) = 0;
  /// Returns when all weights are up to date on this rank, and no rank reads this rank's gradients any more.
  virtual void finish() = 0;
};

/// Chooses the kind of memory for these buckets, allocates it for the weights and moves the parameters there. Shared
/// memory gets rank 0's values. Collective.
/// @param may_share  false: every rank keeps weights of its own, even if the engine could share them
/// @throws Error  if memory is short on some rank; the parameters are then unchanged
std::unique_ptr<FusedMemory> make_fused_memory(std::vector<FusedBucket>& buckets, const GradientBuckets& gradients,
                                               Communicator& communicator, bool may_share);

}  // namespace lockstep
