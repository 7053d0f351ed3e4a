#pragma once

namespace lockstep {

/// An operation that was started and may still run. Tensors given to it belong to it until `wait` returns.
class Work {
 public:
  virtual ~Work() = default;
  /// True once it ended, well or not. Does not block. Asked again and again it is a wait: when the group's timeout has
  /// passed since it was first asked, the operation has failed, and `wait` throws the TimeoutError. (Where nobody asks
  /// for as long as the timeout, the time counts anew.)
  virtual bool is_completed() = 0;
  /// Returns when it has ended well. Can be called again, from any thread.
  /// @throws Error  where the operation failed, the same at each call
  virtual void wait() = 0;
  /// After `wait`: how long it ran beside the caller, in seconds; 0 where the waiting thread did the work itself.
  virtual double seconds() { return 0; }
};

}  // namespace lockstep
