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

/// The start of the cause with which the will of a client is carried out that was silent; others have ended.
constexpr const char* kNotHeardOf = "not heard of for ";

/// The last wills of clients, one per connection: what to push to which queue when the client is lost.
class Wills {
 public:
  using Time = Deadline::Clock::time_point;

  struct Will {
    std::string queue;                  ///< the queue to push to
    std::string value;                  ///< the value to push; the cause is appended
    std::chrono::milliseconds limit{};  ///< of silence
  };

  /// Replaces an earlier will of the connection.
  void make(ConnectionId connection, Will will, Time now) { made_[connection] = {std::move(will), now}; }
  void heard(ConnectionId connection, Time now);
  /// Removes the will of a connection and returns it, to be carried out if the connection ended without leaving.
  std::optional<Will> take(ConnectionId connection);
  /// Removes and returns the wills of connections that were silent for too long.
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
