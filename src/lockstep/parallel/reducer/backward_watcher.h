#pragma once

namespace lockstep {

/// Is told of every backward that may add to gradients, also of those that are not synchronised. One call at a time.
class BackwardWatcher {
 public:
  virtual ~BackwardWatcher() = default;
  /// A backward begins: the call is at an output, or before the first gradient that arrives.
  virtual void backward_begins() = 0;
  /// That backward is over, perhaps by an exception.
  virtual void backward_left() = 0;
};

}  // namespace lockstep
