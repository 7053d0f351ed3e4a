#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>

#include "lockstep/base/deadline.h"
#include "lockstep/base/files/unique_fd.h"
#include "lockstep/net/server/server_connection.h"
#include "lockstep/net/server/store_server.h"
#include "lockstep/net/sockets/socket.h"
#include "lockstep/net/sockets/socket_poller.h"

namespace lockstep {

/// The connections of a store's server: accepts them, bounds how many strangers and clients there are, and closes those
/// that are broken. `listener` and `poller` must outlive it.
class ServerConnections {
 public:
  /// What the poller calls the listener, and the first number that it does not call a connection.
  static constexpr ConnectionId kListenerEvent = 0;
  static constexpr ConnectionId kFirstConnection = 2;

  using Closed = std::function<void(ConnectionId id, const std::string& cause)>;

  /// @param closed  called for each connection that is closed
  ServerConnections(const Listener& listener, SocketPoller& poller, const std::string& secret,
                    const StoreServerOptions& options, Closed closed)
      : options_(options), secret_(secret), listener_(listener), poller_(poller), closed_(std::move(closed)) {}

  void accept_all();
  /// Null if it is closed or broken.
  ServerConnection* find(ConnectionId id);
  /// The connection has proven that it knows the secret.
  void admit(const ServerConnection& connection);
  /// Asks the poller for what the connection can do now.
  void update_interest(const ServerConnection& connection);

  /// Closed by the next close_broken(), because the caller may still be using the connection.
  void mark_broken(ConnectionId id, const std::string& cause) { broken_.emplace(id, cause); }
  void close_broken();

  /// Closes what has not proven itself in time.
  void check_times(Deadline::Clock::time_point now);
  /// How long the server may wait for events, at most `tick`: less while it accepts nobody.
  std::chrono::milliseconds longest_wait(std::chrono::milliseconds tick) const;

 private:
  void add(UniqueFd fd);
  bool drop_oldest_unproven();
  void warn_about_files();
  void pause_accepting(bool pause);

  const StoreServerOptions options_;
  const std::string secret_;
  const Listener& listener_;
  SocketPoller& poller_;
  const Closed closed_;
  std::unordered_map<ConnectionId, std::unique_ptr<ServerConnection>> connections_;
  std::list<ConnectionId> unproven_;            // oldest first
  std::map<ConnectionId, std::string> broken_;  // with the cause
  ConnectionId next_id_ = kFirstConnection;
  bool accepting_ = true;
  bool warned_about_files_ = false;
};

}  // namespace lockstep
