#pragma once

#include <optional>
#include <string>

#include "lockstep/net/sockets/socket_address.h"

namespace lockstep {

/// The parts of an init method, in PyTorch's forms.
struct InitMethod {
  enum class Kind { Env, Tcp, File };
  Kind kind = Kind::Env;
  SocketAddress address;          ///< for Tcp
  std::string path;               ///< for File
  std::optional<int> rank;        ///< "?rank=" in Tcp and File
  std::optional<int> world_size;  ///< "?world_size=" in Tcp and File

  /// Reads "env://", "tcp://host:port" (IPv6 in brackets) or "file:///path". The latter two may end with
  /// "?rank=0&world_size=2" or one of these parts.
  /// @throws Error  for any other text
  static InitMethod parse(const std::string& text);
};

}  // namespace lockstep
