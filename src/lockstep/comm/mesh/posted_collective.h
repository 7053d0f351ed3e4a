#pragma once

namespace lockstep {

/// A collective whose first messages are posted. They travel while its caller, or the operation ahead of it, continues.
/// If it is destroyed before `finish` has returned, the connections break.
class PostedCollective {
 public:
  PostedCollective() = default;
  virtual ~PostedCollective() = default;
  PostedCollective(const PostedCollective&) = delete;
  PostedCollective& operator=(const PostedCollective&) = delete;

  /// Waits for the other ranks and does the rest. Called once, in any thread. @throws MeshError
  virtual void finish() = 0;
};

}  // namespace lockstep
