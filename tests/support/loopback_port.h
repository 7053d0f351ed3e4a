#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <utility>

#include "lockstep/base/files/unique_fd.h"

namespace lockstep {

// A socket bound to a free port of the loopback address, and that port.
inline std::pair<UniqueFd, std::string> bound_socket() {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  return {std::move(fd), std::to_string(ntohs(address.sin_port))};
}

// A free port of the loopback address. Until this goes the kernel gives it to nobody who asks for any port, while those
// who name it, such as launchers, may listen there.
class LoopbackPort {
 public:
  LoopbackPort() : bound_(bound_socket()) {
    const int on = 1;
    ::setsockopt(bound_.first.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  }
  const std::string& text() const { return bound_.second; }

 private:
  const std::pair<UniqueFd, std::string> bound_;
};

}  // namespace lockstep
