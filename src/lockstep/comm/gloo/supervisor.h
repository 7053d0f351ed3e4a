#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lockstep/base/deadline.h"
#include "lockstep/comm/gloo/activity.h"
#include "lockstep/comm/gloo/mesh.h"
#include "lockstep/net/membership.h"

namespace lockstep {

/// Watches the operations of one rank, and finds out, with the other ranks' supervisors and through the store, why one
/// does not end: a rank was lost, has not come, has stopped, or does something else.
///
/// A thread looks every 50 ms. As long as operations are quick it does nothing else. It tells the store what this rank
/// is doing only where that lasts (an operation, or the pause after one), and reads what the others told only while an
/// operation of this rank lasts. Whoever finds the cause first writes it to the store and then breaks its connections,
/// which wakes the others, who read it there: so all ranks throw the same, at once.
class Supervisor {
 public:
  /// @param mesh  shared with the thread, which breaks its connections when the group fails
  Supervisor(const Membership& membership, std::shared_ptr<Mesh> mesh);
  /// Ends the thread; does not touch the connections.
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  /// An operation begins; the number identifies it until `leave`. Thread-safe, like all below.
  std::uint64_t enter(const Activity& activity, Deadline deadline);
  void leave(std::uint64_t id, bool ended_well);

  /// Where the mesh failed: waits until the cause is found and the others can read it; two seconds at most.
  void report(const MeshError& error);
  /// Throws the cause.
  [[noreturn]] void raise(const MeshError& error);
  /// Tells the other ranks and breaks the connections.
  void abort(const std::string& reason);

 private:
  class Watch;
  std::shared_ptr<Watch> watch_;
};

}  // namespace lockstep
