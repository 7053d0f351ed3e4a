#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "lockstep/launch/nodes/host_entry.h"
#include "lockstep/net/sockets/socket_address.h"

namespace lockstep {

/// After the host that served a job was lost and another one serves it: checks whether a launcher listens at the job's
/// endpoint again, such as the lost one, started once more, and tells it where the job is.
class EndpointWatch {
 public:
  /// @param self  the launcher that serves now, at `now`
  EndpointWatch(SocketAddress endpoint, std::string secret, HostEntry self, SocketAddress now);
  ~EndpointWatch();
  EndpointWatch(const EndpointWatch&) = delete;
  EndpointWatch& operator=(const EndpointWatch&) = delete;

 private:
  void watch();
  void look();

  const SocketAddress endpoint_;
  const std::string secret_;
  const HostEntry self_;
  const SocketAddress now_;
  std::string told_;  // id of the launcher that knows
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace lockstep
