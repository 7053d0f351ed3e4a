#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <string>

#include "lockstep/base/deadline.h"
#include "lockstep/comm/mesh/activity.h"
#include "lockstep/comm/mesh/connections.h"
#include "lockstep/comm/mesh/mesh.h"
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
  /// @param connections  shared with the thread, which breaks them when the group fails
  Supervisor(const Membership& membership, std::shared_ptr<Connections> connections);
  /// Tells the others that this rank has left, and ends the thread; does not touch the connections.
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  /// An operation begins; the number identifies it until `leave`. Thread-safe, like all below.
  std::uint64_t enter(const Activity& activity, Deadline deadline);
  void leave(std::uint64_t id, bool ended_well);

  /// Where a message did not get through: waits until the cause is found and the others can read it; two seconds at
  /// most.
  void report(const MeshError& error);
  /// Throws the cause.
  [[noreturn]] void raise(const MeshError& error);
  /// Tells the other ranks and breaks the connections.
  void abort(const std::string& reason);

 private:
  class Watch;
  std::shared_ptr<Watch> watch_;
};

/// One operation under a supervisor's eyes: it has ended well unless an exception passes through this scope.
class Watched {
 public:
  Watched(Supervisor& supervisor, const Activity& activity, Deadline deadline)
      : supervisor_(supervisor), id_(supervisor.enter(activity, deadline)), exceptions_(std::uncaught_exceptions()) {}
  ~Watched() { supervisor_.leave(id_, std::uncaught_exceptions() == exceptions_); }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

 private:
  Supervisor& supervisor_;
  const std::uint64_t id_;
  const int exceptions_;
};

}  // namespace lockstep
