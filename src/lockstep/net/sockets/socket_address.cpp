#include "lockstep/net/sockets/socket_address.h"

#include <charconv>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

[[noreturn]] void refuse_address(const std::string& text, const std::string& reason) {
  throw Error("\"" + text + "\" is not an address of a store: " + reason, "address of a store",
              "write unix:/path, tcp:host:port, or tcp:[::1]:port for IPv6");
}

}  // namespace

SocketAddress SocketAddress::unix_socket(std::string path) {
  SocketAddress address;
  address.kind = Kind::Unix;
  address.path = std::move(path);
  return address;
}

SocketAddress SocketAddress::tcp(std::string host, std::uint16_t port) {
  SocketAddress address;
  address.kind = Kind::Tcp;
  address.host = std::move(host);
  address.port = port;
  return address;
}

SocketAddress SocketAddress::parse(const std::string& text) {
  if (text.rfind("unix:", 0) == 0) {
    const std::string path = text.substr(5);
    if (path.empty() || path[0] != '/') refuse_address(text, "the path must be absolute");
    return unix_socket(path);
  }
  if (text.rfind("tcp:", 0) != 0) refuse_address(text, "it begins with neither unix: nor tcp:");
  const std::size_t colon = text.rfind(':');
  std::string host = colon > 4 ? text.substr(4, colon - 4) : std::string();
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string::npos) {
    refuse_address(text, "an IPv6 address must be in brackets");
  }
  if (host.empty()) refuse_address(text, "the host is missing");
  std::uint16_t port = 0;
  const char* end = text.data() + text.size();
  const auto [stop, status] = std::from_chars(text.data() + colon + 1, end, port);
  if (status != std::errc() || stop != end) refuse_address(text, "the port is not a number from 0 to 65535");
  return tcp(host, port);
}

std::string SocketAddress::text() const {
  if (kind == Kind::Unix) return "unix:" + path;
  const std::string shown = host.find(':') == std::string::npos ? host : "[" + host + "]";
  return "tcp:" + shown + ":" + std::to_string(port);
}

}  // namespace lockstep
