#pragma once

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "fuzz/fuzz_target.h"
#include "lockstep/base/files/unique_fd.h"

namespace lockstep::fuzz {

/// A connection whose other end the target holds: what it reads there is what the network carries.
struct TappedSocket {
  TappedSocket() {
    int ends[2];
    LOCKSTEP_HOLDS(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    ours = UniqueFd(ends[0]);
    network = UniqueFd(ends[1]);
  }
  std::string carried() const {
    std::string bytes(std::size_t{1} << 17, '\0');
    const ssize_t got = ::recv(network.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return bytes;
  }
  /// The last bytes that arrive here.
  void deliver(std::string_view bytes) {
    LOCKSTEP_HOLDS(::send(network.get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
    network.reset();
  }

  UniqueFd ours;
  UniqueFd network;
};

/// What an attacker on the wire makes of `carried`, as `order` says: its first byte chooses between a change of a byte,
/// bytes left out, bytes twice, and bytes of the attacker's own; the next ones say where. Nothing without an order.
inline std::string attacked(std::string carried, std::string_view order) {
  if (order.size() < 4 || carried.empty()) return carried;
  const auto number = [&](std::size_t i) { return static_cast<std::size_t>(static_cast<unsigned char>(order[i])); };
  const std::size_t at = (number(1) << 8 | number(2)) % carried.size();
  const std::size_t length = std::min(number(3) + 1, carried.size() - at);
  switch (number(0) % 4) {
    case 0:
      carried[at] = static_cast<char>(carried[at] ^ order[3]);
      break;
    case 1:
      carried.erase(at, length);
      break;
    case 2:
      carried.insert(at, carried.substr(at, length));
      break;
    default:
      carried.insert(at, order.substr(4));
  }
  return carried;
}

}  // namespace lockstep::fuzz
