#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/deadline.h"

namespace lockstep {

/// An IPv4 or IPv6 address with its port.
struct IpAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  bool is_loopback() const;
  std::string text() const;  ///< without the port
};

/// The result of a look-up: addresses, or why there are none.
struct Resolution {
  std::vector<IpAddress> addresses;
  std::string failure;
  bool unknown_host = false;  ///< the name does not exist, as opposed to: no name server answered
};

/// Looks up `host`, a name or a numeric address, with getaddrinfo(3), which has no deadline of its own.
Resolution resolve(const std::string& host, std::uint16_t port, Deadline deadline);

}  // namespace lockstep
