#pragma once

#include <cstddef>
#include <memory>

#include "lockstep/comm/communicator.h"

namespace lockstep {

/// Reduces some buckets after backward, in place of Reducer: the update of a fused optimizer. Reducer calls it in
/// backward, one call at a time.
class LaterReduction {
 public:
  virtual ~LaterReduction() = default;
  /// Backward has added to the parameter's gradient.
  virtual void gradient_arrived(std::size_t parameter) = 0;
  /// Whether synchronised backwards call `start`. Not while ranks join, because a rank without inputs follows the
  /// others' steps, but not their backwards.
  virtual bool starts_in_backward() const = 0;
  /// The bucket is full. Called in launch order; backward waits for the result before it ends.
  virtual std::shared_ptr<Work> start(std::size_t bucket) = 0;
  /// A synchronised backward has ended. @param all_started  what was started holds all gradients of this rank
  virtual void backward_ended(bool all_started) = 0;
};

}  // namespace lockstep
