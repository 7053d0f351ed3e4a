#pragma once

namespace lockstep {

/// A collective whose first messages are posted. They travel while its caller, or the operation ahead of it, continues.
/// If it is destroyed before `finish` has returned, the connections break.
class BegunOperation {
 public:
  BegunOperation() = default;
  virtual ~BegunOperation() = default;
  BegunOperation(const BegunOperation&) = delete;
  BegunOperation& operator=(const BegunOperation&) = delete;

  /// Waits for the other ranks and does the rest. Called once, in any thread. @throws MeshError
  virtual void finish() = 0;
};

}  // namespace lockstep
