#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/detail/tensor/module_tensors.h"
#include "lockstep/parallel/backward/backward_context.h"
#include "lockstep/parallel/backward/gradient_keeper.h"
#include "lockstep/parallel/reducer/gradient_buckets.h"
#include "lockstep/parallel/shared_gradients.h"

namespace lockstep {

/// The buckets of a backward on their way: they fill up, leave in one order on every rank, and come back as averages.
///
/// Parameters without a gradient in this backward count as ready at its end, so unused parameters need no flag: their
/// `grad` stays undefined if no rank has one, and is the average over all ranks otherwise. A gradient that arrives
/// after its bucket was launched (re-entrant backward of a shared parameter) is kept apart and added in a second round.
///
/// "In backward" below means a synchronised one; a fused update may keep some buckets then, and starts them at once or
/// in its step.
class BucketQueue {
 public:
  /// Collective. @param context  its flags have been claimed
  BucketQueue(const std::vector<NamedTensor>& parameters, BackwardContext& context,
              const GradientBuckets::Options& options);

  GradientBuckets& buckets() { return buckets_; }
  const GradientBuckets& buckets() const { return buckets_; }

  /// Leaves these buckets to `keeper`, which must outlive the time until `take_back`.
  void hand_over(const std::vector<std::size_t>& buckets, GradientKeeper& keeper);
  void take_back();
  /// Who keeps buckets; if there is none, one to whom all is the same.
  GradientKeeper& keeper() const { return *keeper_; }
  bool is_kept(std::size_t parameter) const { return progress_[buckets_.bucket_of(parameter)].is_kept; }
  /// Whether another wrapper averages the parameter's gradient, in the present backward or in whatever one.
  bool is_elsewhere(std::size_t parameter) const { return !is_kept(parameter) && shared_.is_elsewhere(parameter); }
  bool was_elsewhere(std::size_t parameter) const { return shared_.was_elsewhere(parameter); }
  /// Whether the parameter's gradient is sent in backward.
  bool leaves(std::size_t parameter) const { return leaves_in_backward(buckets_.bucket_of(parameter)); }

  /// @param backward  is gone with it
  void begin(const std::weak_ptr<void>& backward);
  /// In place of `begin`: all gradients are zeros.
  void begin_without_inputs();
  /// Whether a bucket has left since `begin`: the other ranks wait for the rest.
  bool has_sent() const { return has_sent_; }
  /// Backward, of any kind, has added to the gradient: tells who keeps it.
  void tell_keeper(std::size_t parameter);
  /// It is a gradient of this backward. @return  whether the parameter is ready now, and was not before
  bool take(std::size_t parameter);
  /// The same of a gradient that another wrapper averages: the others of its bucket do not wait for it.
  bool pass_by(std::size_t parameter);
  void mark_ready(std::size_t parameter);
  /// No more gradients come.
  void complete();
  /// Starts all full buckets before the first that is not; not the last one, which carries the flags. @param at_end  of
  /// backward
  void launch_ready(bool at_end);
  /// Where the flags are sent, behind the gradients of the last bucket; undefined if something else handles that one.
  at::Tensor place_of_flags() const;
  void launch_last();
  /// Waits for the exchanges of all buckets, and for a hook's second ones.
  void wait();
  /// Averages what arrived late on any rank, and adds it.
  void reduce_late();
  void divide(int divisor);
  /// The averages become the parameters' `grad`. @return  whether what arrived late is missing from the keeper's sums
  bool restore();
  void end(bool is_any_missing);

 private:
  struct ParameterState {
    at::Tensor late;     // the part of the gradient that arrived after the bucket was launched
    bool ready = false;  // in this backward
  };
  struct BucketProgress {
    std::size_t pending = 0;  // parameters not ready yet
    bool is_kept = false;     // by `keeper_`
    bool launched = false;
    std::shared_ptr<Work> work;
  };

  bool leaves_in_backward(std::size_t bucket) const {
    return !progress_[bucket].is_kept || (keeper_->starts_in_backward() && !context_.join.is_on());
  }
  ReduceOp op() const { return context_.join.divides_by_active_ranks() ? ReduceOp::Sum : ReduceOp::Avg; }
  void keep_late(std::size_t parameter);
  void launch(std::size_t bucket);

  BackwardContext& context_;
  GradientBuckets buckets_;
  SharedGradients shared_;
  NobodyKeeps nobody_;
  GradientKeeper* keeper_ = &nobody_;
  std::vector<ParameterState> parameters_;
  std::vector<BucketProgress> progress_;  // by bucket
  std::size_t next_launch_ = 0;
  bool has_sent_ = false;
};

}  // namespace lockstep
