#include "lockstep/comm/mesh/bring_up/bind_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/files/unique_fd.h"
#include "lockstep/base/log.h"
#include "lockstep/net/sockets/resolve.h"

namespace lockstep {
namespace {

constexpr const char* kLoopback = "127.0.0.1";

std::string numeric(const sockaddr* address, socklen_t length) {
  IpAddress copy;
  copy.length = length;
  std::memcpy(&copy.storage, address, length);
  return copy.text();
}

std::string list_interfaces(const ifaddrs* list) {
  std::string text;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) continue;
    text += (text.empty() ? "" : ", ") + std::string(entry->ifa_name);
  }
  return text;
}

// The address of the interface `name`, IPv4 first.
std::string address_of_interface(const std::string& name, const std::string& where) {
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0)
    throw Error("cannot list network interfaces: " + errno_text(errno), where, "try again");
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(found, &::freeifaddrs);
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* entry = list.get(); entry != nullptr; entry = entry->ifa_next) {
      if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != family || name != entry->ifa_name) continue;
      return numeric(entry->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    }
  }
  throw Error(fmt::format("network interface \"{}\" does not exist or has no address; there are: {}", name,
                          list_interfaces(list.get())),
              where, "set LOCKSTEP_GLOO_INTERFACE (or GLOO_SOCKET_IFNAME) to one of these, or unset it");
}

// The local end of the route to `host`; nothing if there is none or it is loopback. Sends nothing: connecting a
// datagram socket gives it an address.
std::optional<std::string> local_end_of_route(const std::string& host, Deadline deadline) {
  const Resolution resolution = resolve(host, 9, deadline);
  for (const IpAddress& address : resolution.addresses) {
    const UniqueFd fd(::socket(address.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!fd || ::connect(fd.get(), address.get(), address.length) != 0) continue;
    IpAddress local;
    local.length = sizeof(local.storage);
    if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&local.storage), &local.length) != 0) continue;
    if (!local.is_loopback()) return local.text();
  }
  return std::nullopt;
}

std::string route_key(int rank) { return "mesh/route/" + std::to_string(rank); }

// The master's own host may know itself only by a loopback name; the other ranks' routes to it show a reachable
// address.
std::string address_between_hosts(const Membership& membership, Deadline deadline) {
  std::optional<std::string> address;
  if (const auto master = env_string("MASTER_ADDR")) address = local_end_of_route(*master, deadline);
  membership.store->set(route_key(membership.rank), address.value_or(""));
  for (int rank = 0; rank < membership.world_size && !address; ++rank) {
    const Peer& peer = membership.peers[static_cast<std::size_t>(rank)];
    if (peer.host_id == membership.self().host_id) continue;
    const std::string theirs = membership.store->get(route_key(rank), deadline);
    address = local_end_of_route(theirs.empty() ? peer.host : theirs, deadline);
  }
  if (!address) {
    throw Error("no network interface of this host is known that the ranks on other hosts can reach",
                membership.where(),
                "set LOCKSTEP_GLOO_INTERFACE to the name of the interface, such as eth0, on every host");
  }
  return *address;
}

}  // namespace

std::string interface_of(const std::string& address) {
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) return "unknown";
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(found, &::freeifaddrs);
  for (const ifaddrs* entry = list.get(); entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    if (numeric(entry->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6)) == address) {
      return entry->ifa_name;
    }
  }
  return "unknown";
}

std::string mesh_bind_address(const Membership& membership, const char* engine, Deadline deadline) {
  auto interface = env_string("LOCKSTEP_GLOO_INTERFACE");
  if (!interface) interface = env_string("GLOO_SOCKET_IFNAME");
  std::string address;
  if (interface) {
    address = address_of_interface(interface->substr(0, interface->find(',')), membership.where());
  } else {
    address = membership.on_one_network() ? kLoopback : address_between_hosts(membership, deadline);
  }
  // Between hosts the choice may be wrong, so it is logged, once for each host.
  if (!membership.on_one_host() && membership.self().local_rank == 0) {
    log_info("{} on {}: interface {}, address {} ({})", engine, membership.self().host, interface_of(address), address,
             interface ? "the one asked for" : "on the route to the other hosts");
  }
  return address;
}

}  // namespace lockstep
