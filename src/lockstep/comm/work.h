#pragma once

namespace lockstep {

/// An operation that was started and may still run. Tensors given to it belong to it until `wait` returns.
class Work {
 public:
  virtual ~Work() = default;
  /// True once it ended, well or not. Does not block.
  virtual bool is_completed() = 0;
  /// Returns when it has ended well. Can be called again, from any thread.
  /// @throws Error  where the operation failed, the same at each call
  virtual void wait() = 0;
  /// After `wait`: how long it ran beside the caller, in seconds; 0 where the waiting thread did the work itself.
  virtual double seconds() { return 0; }
};

}  // namespace lockstep
