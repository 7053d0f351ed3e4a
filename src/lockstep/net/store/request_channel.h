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
#include "lockstep/net/sockets/socket_address.h"
#include "lockstep/net/store/frame.h"
#include "lockstep/net/store/store_client.h"
#include "lockstep/net/store/store_connector.h"
#include "lockstep/net/store/store_protocol.h"

namespace lockstep {

/// A client's connection to a store: requests of several threads under way at once, each with its answer, and
/// heartbeats. A thread of its own receives, and sends what the socket did not take at once.
class RequestChannel {
 public:
  RequestChannel(const SocketAddress& address, const std::string& secret, Deadline deadline,
                 const StoreClientOptions& options);
  ~RequestChannel();
  RequestChannel(const RequestChannel&) = delete;
  RequestChannel& operator=(const RequestChannel&) = delete;

  const SocketAddress& address() const { return address_; }
  const std::string& where() const { return where_; }

  enum class AtDeadline {
    Fail,   ///< the server should have answered long ago
    Cancel  ///< it was right to wait: it answers the cancelled request at once, with what was missing
  };
  /// Sends a request and returns the fields of its answer.
  /// @param what  names it in errors
  /// @throws Error         that the server answered with; or if the connection is lost
  /// @throws TimeoutError  at the deadline
  std::string call(StoreOperation operation, const std::string& fields, Deadline deadline, AtDeadline at_deadline,
                   const std::string& what);

  /// Ends the connection: calls fail with `reason` from now on.
  void close(const std::string& reason);
  bool usable();

 private:
  struct Call {
    std::condition_variable ended;
    bool done = false;
    std::string answer;  // empty where the connection was lost
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
  const HomeProcess home_;  // a forked child has no thread that receives
  ProvenConnection connection_;
  FrameReader reader_;                                           // the thread's own, as the next
  std::optional<Deadline::Clock::time_point> unanswered_since_;  // the server was asked, and has sent nothing since

  std::mutex mutex_;  // guards what follows, down to stopping_
  FrameWriter writer_;
  std::map<std::uint64_t, Call*> calls_;  // not answered yet
  std::uint64_t next_number_ = 1;
  std::string closed_;  // why no call can succeed any more
  bool stopping_ = false;

  UniqueFd wake_;
  std::thread thread_;
};

}  // namespace lockstep
