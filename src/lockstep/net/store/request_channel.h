#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "lockstep/base/deadline.h"
#include "lockstep/base/files/unique_fd.h"
#include "lockstep/base/home_process.h"
#include "lockstep/net/sockets/socket.h"
#include "lockstep/net/sockets/socket_address.h"
#include "lockstep/net/store/frame.h"
#include "lockstep/net/store/store_client.h"
#include "lockstep/net/store/store_connector.h"
#include "lockstep/net/store/store_protocol.h"

namespace lockstep {

/// A client's connection to a store, with heartbeats. Requests of several threads may be pending at once, and each gets
/// its own answer. A thread of the channel receives, and sends what the socket did not accept at once.
class RequestChannel {
 public:
  RequestChannel(const SocketAddress& address, const std::string& secret, Deadline deadline,
                 const StoreClientOptions& options);
  ~RequestChannel();
  RequestChannel(const RequestChannel&) = delete;
  RequestChannel& operator=(const RequestChannel&) = delete;

  const SocketAddress& address() const { return address_; }
  /// The numeric address of this end.
  std::string own_end() const { return own_address(connection_.fd.get()); }
  const std::string& where() const { return where_; }

  enum class AtDeadline {
    Fail,   ///< the server should have answered long before
    Cancel  ///< the wait was legitimate: the server answers the cancelled request at once, with what was missing
  };
  /// Sends a request and returns the fields of its answer.
  /// @param what  the request's name in errors
  /// @throws Error  that the server answered with, or if the connection is lost
  /// @throws TimeoutError  at the deadline
  std::string call(StoreOperation operation, const std::string& fields, Deadline deadline, AtDeadline at_deadline,
                   const std::string& what);

  /// Ends the connection: from now on calls fail with `reason`.
  void close(const std::string& reason);
  /// Ends the connection as if it were lost.
  void abandon(const std::string& reason);
  bool usable();

 private:
  struct Call {
    std::condition_variable ended;
    bool done = false;
    std::string answer;  // empty if the connection was lost
  };

  void run();
  void serve_socket(short events);
  void read_answers();
  void send_heartbeat();
  void check_silence();
  void push(StoreOperation operation, std::uint64_t number, const std::string& fields);
  void fail_all(const std::string& reason);
  void fail_lost(const std::string& cause);
  std::string fields_of(const std::string& answer) const;
  void check_request(const std::string& fields, const std::string& what) const;
  [[noreturn]] void throw_closed(const std::string& what) const;
  void wake();

  const SocketAddress address_;
  const StoreClientOptions options_;
  const std::string where_;
  const HomeProcess home_;  // a forked child has no receiving thread
  ProvenConnection connection_;
  FrameReader reader_;                                           // only the thread uses this and the next one
  std::optional<Deadline::Clock::time_point> unanswered_since_;  // when the server was asked, if it has sent nothing
                                                                 // since

  std::mutex mutex_;  // guards the members below, down to stopping_
  FrameWriter writer_;
  std::map<std::uint64_t, Call*> calls_;  // not answered yet
  std::uint64_t next_number_ = 1;
  std::string closed_;  // why no call can succeed any more; empty while the channel is open
  bool lost_ = false;   // closed because the connection ended, and not by `close`
  bool stopping_ = false;

  UniqueFd wake_;
  std::thread thread_;
};

}  // namespace lockstep
