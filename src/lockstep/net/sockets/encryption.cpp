#include "lockstep/net/sockets/encryption.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstring>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"

namespace lockstep {
namespace {

constexpr const char* kEncrypt = "LOCKSTEP_ENCRYPT";

bool is_within(std::uint32_t address, std::uint32_t network, int bits) {
  return (address ^ network) >> (32 - bits) == 0;
}

bool is_private(std::uint32_t v4) {
  return is_within(v4, 0x7f000000, 8) ||   // 127.0.0.0/8, loopback
         is_within(v4, 0x0a000000, 8) ||   // 10.0.0.0/8
         is_within(v4, 0xac100000, 12) ||  // 172.16.0.0/12
         is_within(v4, 0xc0a80000, 16) ||  // 192.168.0.0/16
         is_within(v4, 0xa9fe0000, 16) ||  // 169.254.0.0/16, link-local
         is_within(v4, 0x64400000, 10);    // 100.64.0.0/10, shared by a provider's customers
}

bool is_private(const in6_addr& v6) {
  if (IN6_IS_ADDR_V4MAPPED(&v6)) {
    std::uint32_t v4 = 0;
    std::memcpy(&v4, v6.s6_addr + 12, sizeof(v4));
    return is_private(ntohl(v4));
  }
  const bool is_unique_local = (v6.s6_addr[0] & 0xfe) == 0xfc;  // fc00::/7
  return IN6_IS_ADDR_LOOPBACK(&v6) || IN6_IS_ADDR_LINKLOCAL(&v6) || is_unique_local;
}

bool is_private(const IpAddress& address) {
  if (address.family() == AF_INET) {
    return is_private(ntohl(reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_addr.s_addr));
  }
  return is_private(reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_addr);
}

}  // namespace

bool encryption_is_demanded() { return env_bool(kEncrypt).value_or(false); }

bool asks_for_encryption(const IpAddress& peer) {
  if (peer.family() != AF_INET && peer.family() != AF_INET6) return false;
  return env_bool(kEncrypt).value_or(!is_private(peer));
}

bool asks_for_encryption(int fd) {
  IpAddress peer;
  peer.length = sizeof(peer.storage);
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer.storage), &peer.length) != 0) {
    return encryption_is_demanded();  // the connection has ended
  }
  return asks_for_encryption(peer);
}

void check_encryption_has_secret(const std::string& secret, const std::string& address) {
  if (!secret.empty() || !encryption_is_demanded()) return;
  throw Error("LOCKSTEP_ENCRYPT asks for encryption, but this job has no secret to derive keys from",
              "store at " + address,
              "give all ranks the same LOCKSTEP_SECRET or LOCKSTEP_SECRET_FILE (openssl rand -hex 32)");
}

}  // namespace lockstep
