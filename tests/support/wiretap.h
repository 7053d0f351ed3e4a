#pragma once

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/socket.h>

#include <string>
#include <string_view>

#include "lockstep/base/files/unique_fd.h"

namespace lockstep::testing {

/// Everything that goes over the loopback interface from now on, as far as the kernel keeps it. Needs root, or
/// CAP_NET_RAW: false without.
class Wiretap {
 public:
  Wiretap() : socket_(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, htons(ETH_P_ALL))) {
    if (!socket_) return;
    const int room = 64 << 20;
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room));
    sockaddr_ll loopback{};
    loopback.sll_family = AF_PACKET;
    loopback.sll_protocol = htons(ETH_P_ALL);
    loopback.sll_ifindex = static_cast<int>(::if_nametoindex("lo"));
    if (::bind(socket_.get(), reinterpret_cast<sockaddr*>(&loopback), sizeof(loopback)) != 0) socket_ = UniqueFd();
  }
  explicit operator bool() const { return static_cast<bool>(socket_); }

  /// Whether a packet since the last call carries `text`.
  bool hears(std::string_view text) const {
    bool found = false;
    std::string packet(std::size_t{1} << 17, '\0');
    for (;;) {
      const ssize_t got = ::recv(socket_.get(), packet.data(), packet.size(), 0);
      if (got <= 0) return found;
      const std::string_view seen(packet.data(), static_cast<std::size_t>(got));
      found = found || seen.find(text) != std::string_view::npos;
    }
  }

 private:
  UniqueFd socket_;
};

}  // namespace lockstep::testing
