#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

/// The address where a server listens: a Unix socket, or a host and TCP port.
struct SocketAddress {
  enum class Kind { Unix, Tcp };

  Kind kind = Kind::Unix;
  std::string path;        ///< for Unix
  std::string host;        ///< name, IPv4 or IPv6 address; no brackets
  std::uint16_t port = 0;  ///< 0: the kernel chooses one when a server starts

  static SocketAddress unix_socket(std::string path);
  static SocketAddress tcp(std::string host, std::uint16_t port);
  /// Reads "unix:/path" or "tcp:host:port"; brackets enclose an IPv6 address: "tcp:[::1]:29500".
  /// @throws Error  for any other text
  static SocketAddress parse(const std::string& text);

  /// The form that `parse` reads.
  std::string text() const;
};

}  // namespace lockstep
