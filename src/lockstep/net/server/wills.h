#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/net/server/waiters.h"

namespace lockstep {

/// What clients want to be told of them when they are lost: one will for each connection.
class Wills {
 public:
  using Time = Deadline::Clock::time_point;

  struct Will {
    std::string queue;                  ///< to be pushed to
    std::string value;                  ///< what to push; the cause is appended
    std::chrono::milliseconds limit{};  ///< of silence
  };

  /// In place of one that the connection has made before.
  void make(ConnectionId connection, Will will, Time now) { made_[connection] = {std::move(will), now}; }
  void heard(ConnectionId connection, Time now);
  /// Takes the will of a connection away: to be carried out, where it ended without a goodbye.
  std::optional<Will> take(ConnectionId connection);
  /// Takes away those of connections that were silent for too long.
  std::vector<Will> take_silent(Time now);
  /// The server itself did not run for `pause`.
  void forgive(std::chrono::nanoseconds pause);

 private:
  struct Made {
    Will will;
    Time last;
  };
  std::map<ConnectionId, Made> made_;
};

}  // namespace lockstep
