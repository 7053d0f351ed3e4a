#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <string>

#include "lockstep/base/deadline.h"
#include "lockstep/comm/mesh/activity.h"
#include "lockstep/comm/mesh/connections.h"
#include "lockstep/comm/mesh/mesh.h"
#include "lockstep/detail/net/membership.h"

namespace lockstep {

/// Watches the operations of one rank. With the other ranks' supervisors and the store it finds out why an operation
/// does not end: a rank was lost, has not arrived, has stopped, or does something else.
///
/// A thread looks every 50 ms (`Membership::look_interval`). While operations are quick it does nothing else. It
/// reports this rank's state to the store only if an operation, or the pause after one, lasts, and reads the others'
/// reports only while an operation of this rank lasts. The first supervisor that finds the cause writes it to the store
/// and then breaks its connections. That wakes the others, which read the cause there: so all ranks throw the same
/// error, at once.
class Supervisor {
 public:
  /// @param connections  shared with the thread, which breaks them when the group fails
  Supervisor(const Membership& membership, std::shared_ptr<Connections> connections);
  /// Reports to the others that this rank has left, and ends the thread; does not touch the connections.
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  /// An operation begins; the number identifies it until `leave`. Thread-safe, like all functions below.
  std::uint64_t enter(const Activity& activity, Deadline deadline);
  /// The operation's time runs from now on, until `deadline`.
  void restart(std::uint64_t id, Deadline deadline);
  void leave(std::uint64_t id, bool ended_well);

  /// Call it if a message did not arrive. Waits, at most two seconds, until the cause is found and the others can read
  /// it.
  void report(const MeshError& error);
  /// Throws the cause.
  [[noreturn]] void raise(const MeshError& error);
  /// Reports to the other ranks and breaks the connections.
  void abort(const std::string& reason);

 private:
  class Watch;
  std::shared_ptr<Watch> watch_;
};

/// One operation that a supervisor watches: it has succeeded unless an exception passes through this scope.
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
