#include "lockstep/net/sockets/socket.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/net/sockets/resolve.h"
#include "lockstep/net/sockets/stale_sockets.h"
#include "lockstep/net/sockets/unix_address.h"
#include "lockstep/net/store_errors.h"

namespace lockstep {
namespace {

constexpr int kBacklog = 4096;  // the kernel cuts it to its own limit

UniqueFd new_socket(int family) {
  UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) {
    throw Error("cannot create a socket: " + errno_text(errno), host_name(),
                errno == EAFNOSUPPORT ? "use the other IP version: this host has none of this family"
                                      : "raise the limit of open files (ulimit -n)");
  }
  return fd;
}

// Waits until a pending connect has ended; returns its error number.
int finish_connect(int fd, Deadline deadline) {
  pollfd waited{fd, POLLOUT, 0};
  while (::poll(&waited, 1, deadline.poll_timeout_ms()) <= 0) {
    if (deadline.passed()) return ETIMEDOUT;
  }
  int code = 0;
  socklen_t size = sizeof(code);
  return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size) == 0 ? code : errno;
}

int connect_fd(int fd, const sockaddr* address, socklen_t length, Deadline deadline) {
  if (::connect(fd, address, length) == 0) return 0;
  return errno == EINPROGRESS || errno == EINTR ? finish_connect(fd, deadline) : errno;
}

[[noreturn]] void fail_to_listen(const SocketAddress& address, int code) {
  std::string fix = "check the address and your permissions";
  if (code == EADDRINUSE) {
    fix = address.kind == SocketAddress::Kind::Tcp
              ? fmt::format(
                    "choose another port (MASTER_PORT or --master-port; 0 under `lockstep run` takes a free one, on "
                    "one node); `ss -ltnp 'sport = :{}'` shows who listens there",
                    address.port)
              : "wait until the job that is served there has ended, or give this one another address";
  } else if (code == EADDRNOTAVAIL) {
    fix = "rank 0 must run on the host that the address belongs to: check MASTER_ADDR and the node's rank";
  } else if (code == EACCES && address.kind == SocketAddress::Kind::Tcp) {
    fix = "choose a port above 1023";
  }
  const std::string what = fmt::format("cannot listen at {}: {}", address.text(), errno_text(code));
  if (code == EADDRINUSE) throw AddressInUseError(what, host_name(), fix);
  throw Error(what, host_name(), fix);
}

Listener listen_unix(const SocketAddress& address) {
  const sockaddr_un name = unix_address(address.path);
  UniqueFd fd = new_socket(AF_UNIX);
  ::fchmod(fd.get(), 0600);  // before bind: the file is never open to others
  const SocketFolderLock lock(address.path);
  const auto* raw = reinterpret_cast<const sockaddr*>(&name);
  int code = ::bind(fd.get(), raw, sizeof(name)) == 0 ? 0 : errno;
  if (code == EADDRINUSE && is_stale_socket(address.path)) {
    ::unlink(address.path.c_str());
    code = ::bind(fd.get(), raw, sizeof(name)) == 0 ? 0 : errno;
  }
  if (code == 0 && ::listen(fd.get(), kBacklog) != 0) code = errno;
  if (code != 0) fail_to_listen(address, code);
  remove_stale_sockets_beside(address.path, lock);
  return {std::move(fd), SocketFile(address.path), address, true};
}

std::uint16_t bound_port(int fd) {
  IpAddress bound;
  bound.length = sizeof(bound.storage);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&bound.storage), &bound.length) != 0) return 0;
  return ntohs(bound.family() == AF_INET ? reinterpret_cast<const sockaddr_in*>(&bound.storage)->sin_port
                                         : reinterpret_cast<const sockaddr_in6*>(&bound.storage)->sin6_port);
}

Listener listen_tcp(const SocketAddress& address, Deadline deadline) {
  const Resolution found = resolve(address.host, address.port, deadline);
  if (found.addresses.empty()) {
    throw Error(fmt::format("cannot resolve host \"{}\": {}", address.host, found.failure), host_name(),
                "check MASTER_ADDR, or write a numeric address");
  }
  int code = 0;
  for (const IpAddress& candidate : found.addresses) {
    UniqueFd fd = new_socket(candidate.family());
    const int on = 1;
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on,
                 sizeof(on));  // a port whose last connections just ended is free
    if (candidate.family() == AF_INET6) ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    if (::bind(fd.get(), candidate.get(), candidate.length) == 0 && ::listen(fd.get(), kBacklog) == 0) {
      const std::uint16_t port = bound_port(fd.get());
      return {std::move(fd), SocketFile(), SocketAddress::tcp(address.host, port), candidate.is_loopback()};
    }
    if (code == 0) code = errno;
  }
  fail_to_listen(address, code);
}

Connected connect_unix(const SocketAddress& address, Deadline deadline) {
  const sockaddr_un name = unix_address(address.path);
  UniqueFd fd = new_socket(AF_UNIX);
  const int code = connect_fd(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name), deadline);
  if (code != 0) return {UniqueFd(), errno_text(code), false, code == ECONNREFUSED || code == ENOENT};
  if (!peer_is_same_user(fd.get())) {
    throw Error("another user's process serves " + address.text(), host_name(),
                "run all ranks under one user; if you do, someone else has taken this path: choose another folder");
  }
  return {std::move(fd), {}, false};
}

Connected connect_tcp(const SocketAddress& address, bool loopback_only, Deadline deadline) {
  const Resolution found = resolve(address.host, address.port, deadline);
  if (found.addresses.empty()) {
    return {UniqueFd(), fmt::format("cannot resolve host \"{}\": {}", address.host, found.failure), found.unknown_host};
  }
  const bool any_loopback = std::any_of(found.addresses.begin(), found.addresses.end(),
                                        [](const IpAddress& candidate) { return candidate.is_loopback(); });
  if (loopback_only && !any_loopback) {
    throw Error(fmt::format("{} is {}, which other hosts can reach, but there is no secret", address.text(),
                            found.addresses.front().text()),
                host_name(),
                "give all ranks the same LOCKSTEP_SECRET or LOCKSTEP_SECRET_FILE, or use 127.0.0.1 if all ranks run on "
                "this host");
  }
  std::string failure;
  bool refused = true;
  for (const IpAddress& candidate : found.addresses) {
    if (loopback_only && !candidate.is_loopback()) continue;
    UniqueFd fd = new_socket(candidate.family());
    const int code = connect_fd(fd.get(), candidate.get(), candidate.length, deadline);
    if (code == 0) return {std::move(fd), {}, false};
    refused = refused && code == ECONNREFUSED;
    failure += fmt::format("{}{}: {}", failure.empty() ? "" : ", ", candidate.text(), errno_text(code));
  }
  return {UniqueFd(), failure, false, refused};
}

}  // namespace

SocketFile::SocketFile(std::string path) : path_(std::move(path)) {
  struct stat status {};
  ::lstat(path_.c_str(), &status);
  device_ = status.st_dev;
  inode_ = status.st_ino;
}

SocketFile& SocketFile::operator=(SocketFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(device_, other.device_);
  std::swap(inode_, other.inode_);
  return *this;
}

SocketFile::~SocketFile() {
  struct stat status {};
  if (path_.empty() || ::lstat(path_.c_str(), &status) != 0) return;
  if (status.st_dev == device_ && status.st_ino == inode_) ::unlink(path_.c_str());
}

Listener listen_at(const SocketAddress& address, Deadline deadline) {
  return address.kind == SocketAddress::Kind::Unix ? listen_unix(address) : listen_tcp(address, deadline);
}

Connected connect_once(const SocketAddress& address, bool loopback_only, Deadline deadline) {
  return address.kind == SocketAddress::Kind::Unix ? connect_unix(address, deadline)
                                                   : connect_tcp(address, loopback_only, deadline);
}

std::string own_address(int fd) {
  IpAddress own;
  own.length = sizeof(own.storage);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&own.storage), &own.length) != 0) return "";
  return own.family() == AF_INET || own.family() == AF_INET6 ? own.text() : "";
}

void tune_connection(int fd) {
  const int on = 1;
  const unsigned unacknowledged_ms = 15000;
  const int idle_s = 5;
  const int interval_s = 3;
  const int probes = 3;
  // TCP doubles its pause before it sends lost packets again, so a link that was down for a moment, and again, could
  // keep a connection still for 5 s after it is up. Kernels before Linux 6.15 refuse the option, and old headers lack
  // its name.
  constexpr int kTcpRtoMaxMs = 44;
  const int longest_pause_ms = 1000;  // the least that the kernel takes
  // All of these fail on Unix sockets, which do not need them.
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms, sizeof(unacknowledged_ms));
  ::setsockopt(fd, IPPROTO_TCP, kTcpRtoMaxMs, &longest_pause_ms, sizeof(longest_pause_ms));
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

bool peer_is_same_user(int fd) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::geteuid();
}

bool send_all(int fd, std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
      continue;
    }
    if (errno == EINTR) continue;
    if ((errno != EAGAIN && errno != EWOULDBLOCK) || deadline.passed()) return false;
    pollfd waited{fd, POLLOUT, 0};
    ::poll(&waited, 1, deadline.poll_timeout_ms());
  }
  return true;
}

Received receive_exactly(int fd, std::size_t count, Deadline deadline) {
  Received result;
  std::string block(count, '\0');
  while (result.bytes.size() < count) {
    const ssize_t got = ::recv(fd, block.data(), count - result.bytes.size(), MSG_DONTWAIT);
    if (got > 0) {
      result.bytes.append(block, 0, static_cast<std::size_t>(got));
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    result.closed = got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
    result.timed_out = !result.closed && deadline.passed();
    if (result.closed || result.timed_out) return result;
    pollfd waited{fd, POLLIN, 0};
    ::poll(&waited, 1, deadline.poll_timeout_ms());
  }
  return result;
}

}  // namespace lockstep
