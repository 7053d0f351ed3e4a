#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/optim/kernels/kernels.h"
#include "lockstep/parallel/fused/fused_bucket.h"
#include "lockstep/parallel/fused/update_plan.h"
#include "lockstep/parallel/reducer/gradient_buckets.h"

namespace lockstep {

/// How a bucket's gradients are reduced.
struct GradientReduction {
  ReduceOp op = ReduceOp::Avg;  ///< Sum or Avg
  bool adds = false;            ///< to the sums that are there already, if messages reduce
  int divisor = 1;              ///< of the result, if messages reduce
};

/// Moves gradients and weights of fused buckets between ranks. Calls in one update, in one order on every rank:
/// `begin_reduction` for each bucket; `gradients` for each bucket, any number of times; `publish` for each bucket whose
/// owned weights were updated, the same buckets on every rank; `finish` once.
class FusedMemory {
 public:
  virtual ~FusedMemory() = default;
  /// This rank has filled the bucket: starts to collect all ranks' gradients. Called in one order on every rank.
  /// @param how  what `gradients` is then the source of, if messages collect
  /// @return  null if there is nothing to wait for
  virtual std::shared_ptr<Work> begin_reduction(std::size_t bucket, const GradientReduction& how) = 0;
  /// Whether the bucket's memory may be written again. Does not wait.
  virtual bool is_reduced(std::size_t bucket) = 0;
  /// Waits for the bucket's reduction, if one has begun: its memory may be written again.
  virtual void end_reduction(std::size_t bucket) = 0;
  /// The sums that messages have collected in the owned elements; undefined if the update reads gradients in place.
  virtual at::Tensor sum(std::size_t bucket) = 0;
  /// The source of the sum of all ranks' gradients in the owned elements (or of their average: see `begin_reduction`):
  /// `sources` point to element 0.
  virtual GradientSource gradients(std::size_t bucket) = 0;
  /// Whether these are averages already, whatever has reduced them.
  virtual bool sums_are_final() const { return false; }
  /// Runs `body`, which reads gradients and writes the owned weights.
  virtual void access(const std::function<void()>& body) = 0;
  /// True if a pass over `gradients` with `zero` leaves zeros in the buckets.
  virtual bool zeroes_buckets() const = 0;
  /// Every rank has multiplied its gradients in elements [begin, end) of the bucket by `factor`; scales existing sums.
  virtual void follow_scaling(std::size_t bucket, std::int64_t begin, std::int64_t end, double factor) = 0;
  virtual void publish(std::size_t bucket) = 0;
  /// Returns when all weights are up to date on this rank, and no rank reads this rank's gradients any more.
  /// @param received  if set, called for each bucket whose weights other ranks have sent, when they are here
  virtual void finish(const std::function<void(std::size_t bucket)>& received) = 0;
};

/// The gradients that these pointers to element 0 have; `sources` must outlive it. @param like  of their type
GradientSource source_of(const std::vector<void*>& sources, const at::Tensor& like);

/// Allocates the weights of these buckets as `plan` has it, and moves the parameters there. Each copy that ranks share
/// gets the values of the first of them. Collective. Buckets whose weights are defined keep them.
/// @param has_values  these weights have their values, which the parameters take over
/// @throws Error  if memory is short on some rank; the parameters are then unchanged
std::unique_ptr<FusedMemory> make_fused_memory(const UpdatePlan& plan, std::vector<FusedBucket>& buckets,
                                               const GradientBuckets& gradients, Communicator& communicator,
                                               bool has_values = false);

}  // namespace lockstep
