#pragma once

namespace lockstep {

/// An operation that was started and may still run. It owns the tensors given to it until `wait` returns.
class Work {
 public:
  virtual ~Work() = default;
  /// True once the operation has ended, in success or failure. Does not block. A caller that polls is taken to wait: if
  /// the group's timeout passes after the first poll, the operation fails, and `wait` throws the TimeoutError. (If no
  /// poll arrives for as long as the timeout, the time starts again.)
  virtual bool is_completed() = 0;
  /// Returns when the operation has succeeded. Can be called again, from any thread.
  /// @throws Error  if the operation failed; each call throws the same error
  virtual void wait() = 0;
  /// After `wait`: how long the operation ran beside the caller, in seconds; 0 if the waiting thread did the work
  /// itself.
  virtual double seconds() { return 0; }
};

}  // namespace lockstep
