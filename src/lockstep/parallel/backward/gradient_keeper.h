#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// Keeps the gradients of some buckets in place of BucketQueue, and reduces them itself: the update of a fused
/// optimizer. It is called in backward, one call at a time.
class GradientKeeper {
 public:
  virtual ~GradientKeeper() = default;
  /// Whether the ranks also meet in steps: an error of a backward then says in which step each rank is.
  virtual bool has_steps() const = 0;
  /// Backward has added to the parameter's gradient, and its bucket has not started.
  virtual void arrived(std::size_t parameter) = 0;
  /// Whether synchronised backwards call `start`. Not while ranks join, because a rank without inputs follows the
  /// others' steps, but not their backwards.
  virtual bool starts_in_backward() const = 0;
  /// False if `start` would wait for ranks that may wait for this one's backward.
  virtual bool can_start(std::size_t bucket) = 0;
  /// The bucket is full: takes its gradients off their parameters, and sends them. Called in launch order; backward
  /// waits for the result before it ends.
  virtual std::shared_ptr<Work> start(std::size_t bucket) = 0;
  /// The backward that started the parameter's bucket ends. @param late  what arrived after that; undefined if nothing
  virtual void give_back(std::size_t parameter, const at::Tensor& late) = 0;
  /// A synchronised backward has ended. @param all_started  what was started holds all gradients of this rank
  virtual void backward_ended(bool all_started) = 0;
  /// Seconds for which `start` has waited for memory since the last call.
  virtual double take_waited_s() = 0;
};

/// Keeps no bucket, so that nobody asks whether there is a keeper.
class NobodyKeeps final : public GradientKeeper {
 public:
  bool has_steps() const override { return false; }
  void arrived(std::size_t /*parameter*/) override {}
  bool starts_in_backward() const override { return false; }
  bool can_start(std::size_t /*bucket*/) override { return true; }
  std::shared_ptr<Work> start(std::size_t /*bucket*/) override { return nullptr; }
  void give_back(std::size_t /*parameter*/, const at::Tensor& /*late*/) override {}
  void backward_ended(bool /*all_started*/) override {}
  double take_waited_s() override { return 0; }
};

}  // namespace lockstep
