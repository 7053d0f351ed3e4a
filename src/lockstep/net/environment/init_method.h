#pragma once

#include <optional>
#include <string>

#include "lockstep/net/sockets/socket_address.h"

namespace lockstep {

/// The parts of an init method, under PyTorch's forms.
struct InitMethod {
  enum class Kind { Env, Tcp, File };
  Kind kind = Kind::Env;
  SocketAddress address;          ///< of Tcp
  std::string path;               ///< of File
  std::optional<int> rank;        ///< "?rank=" of Tcp and File
  std::optional<int> world_size;  ///< "?world_size=" of Tcp and File

  /// Reads "env://", "tcp://host:port" (IPv6 in brackets) or "file:///path", the latter two with "?rank=0&world_size=2"
  /// or a part of it.
  /// @throws Error  for any other text
  static InitMethod parse(const std::string& text);
};

}  // namespace lockstep
