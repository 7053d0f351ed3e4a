#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// Keeps and reduces the gradients of some buckets in place of Reducer: the update of a fused optimizer. Reducer calls
/// it in backward, one call at a time.
class LaterReduction {
 public:
  virtual ~LaterReduction() = default;
  /// Whether `backward_begins` must be called in backwards that are not synchronised, too.
  virtual bool wants_every_backward() const = 0;
  /// A backward begins: the call is at an output, or behind the first gradient that arrives.
  virtual void backward_begins() = 0;
  /// That backward is over, perhaps by an exception.
  virtual void backward_left() = 0;
  /// Backward has added to the parameter's gradient, and its bucket has not started.
  virtual void gradient_arrived(std::size_t parameter) = 0;
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

}  // namespace lockstep
