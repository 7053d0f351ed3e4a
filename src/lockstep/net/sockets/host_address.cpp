#include "lockstep/net/sockets/host_address.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <cstring>
#include <memory>

#include "lockstep/base/processor/topology.h"
#include "lockstep/net/sockets/resolve.h"

namespace lockstep {
namespace {

bool is_usable(const IpAddress& address) {
  if (address.is_loopback()) return false;
  if (address.family() != AF_INET6) return true;
  return !IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_addr);
}

std::string of_first_interface() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    IpAddress address;
    address.length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::memcpy(&address.storage, entry->ifa_addr, address.length);
    if (is_usable(address)) return address.text();
  }
  return {};
}

}  // namespace

std::string address_for_other_hosts(Deadline deadline) {
  for (const IpAddress& address : resolve(host_name(), 0, deadline).addresses) {
    if (is_usable(address)) return address.text();
  }
  const std::string found = of_first_interface();
  return found.empty() ? "127.0.0.1" : found;
}

}  // namespace lockstep
