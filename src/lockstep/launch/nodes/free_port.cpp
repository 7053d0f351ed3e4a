#include "lockstep/launch/nodes/free_port.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

#include "lockstep/base/error.h"
#include "lockstep/base/files/unique_fd.h"
#include "lockstep/base/processor/topology.h"

namespace lockstep {
namespace {

// Binds a socket to `port` on all addresses, IPv6 and IPv4, and returns the port; on failure returns 0 and sets errno.
std::uint16_t bind_everywhere(std::uint16_t port, UniqueFd& fd) {
  const int on = 1;
  const int off = 0;
  fd = UniqueFd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 both{};
  both.sin6_family = AF_INET6;
  both.sin6_port = htons(port);
  sockaddr_in only4{};
  only4.sin_family = AF_INET;
  only4.sin_port = htons(port);
  auto* address = reinterpret_cast<sockaddr*>(&both);
  socklen_t size = sizeof(both);
  if (!fd || ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) != 0) {
    fd = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));  // a host without IPv6
    address = reinterpret_cast<sockaddr*>(&only4);
    size = sizeof(only4);
  }
  if (!fd) return 0;
  // Connections of a job that has just ended do not make a port busy; a listener does.
  if (port != 0 && ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0) return 0;
  if (::bind(fd.get(), address, size) != 0) return 0;
  if (::getsockname(fd.get(), address, &size) != 0) return 0;
  return ntohs(address->sa_family == AF_INET6 ? both.sin6_port : only4.sin_port);
}

}  // namespace

std::uint16_t free_port() { return HeldPort().number(); }

HeldPort::HeldPort() : number_(bind_everywhere(0, fd_)) {
  if (number_ == 0) throw Error("no free TCP port: " + errno_text(errno), "host " + host_name(), "end other programs");
  const int on = 1;
  // Set only now: if it were set before, the kernel might choose a port that another process holds in the same way.
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
}

void check_port_is_free(std::uint16_t port) {
  UniqueFd fd;
  if (bind_everywhere(port, fd) != 0) return;
  throw Error(fmt::format("master port {} cannot be used: {}", port, errno_text(errno)), "host " + host_name(),
              "leave out --master-port, or give 0: a free port is found then");
}

}  // namespace lockstep
