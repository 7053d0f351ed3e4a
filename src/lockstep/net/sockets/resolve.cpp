#include "lockstep/net/sockets/resolve.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <array>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "lockstep/net/sockets/signal_mask.h"

namespace lockstep {
namespace {

Resolution look_up(const std::string& host, std::uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int status = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  Resolution result;
  if (status != 0) {
    result.failure = ::gai_strerror(status);
    result.unknown_host = status == EAI_NONAME || status == EAI_NODATA || status == EAI_ADDRFAMILY;
    return result;
  }
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_addrlen > sizeof(sockaddr_storage)) continue;
    IpAddress address;
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.length = entry->ai_addrlen;
    result.addresses.push_back(address);
  }
  ::freeaddrinfo(found);
  return result;
}

// Shared by the thread that looks up and the one that waits; the last one frees it.
struct LookUp {
  std::mutex mutex;
  std::condition_variable ended;
  bool done = false;
  Resolution result;
};

}  // namespace

bool IpAddress::is_loopback() const {
  if (family() == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&storage);
    return (ntohl(v4->sin_addr.s_addr) >> 24) == 127;
  }
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&storage);
  if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) return v6->sin6_addr.s6_addr[12] == 127;
  return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

std::string IpAddress::text() const {
  std::array<char, NI_MAXHOST> name{};
  if (::getnameinfo(get(), length, name.data(), name.size(), nullptr, 0, NI_NUMERICHOST) != 0) return "?";
  return name.data();
}

Resolution resolve(const std::string& host, std::uint16_t port, Deadline deadline) {
  Resolution numeric = look_up(host, port, AI_NUMERICHOST);
  if (numeric.failure.empty()) return numeric;

  const auto shared = std::make_shared<LookUp>();
  const SignalsBlocked blocked;
  // Detached: a name server that does not answer must not delay the deadline.
  std::thread([shared, host, port] {
    Resolution result = look_up(host, port, 0);
    const std::lock_guard lock(shared->mutex);
    shared->result = std::move(result);
    shared->done = true;
    shared->ended.notify_all();
  }).detach();
  std::unique_lock lock(shared->mutex);
  while (!shared->done) {
    if (deadline.passed()) return {{}, "the name service did not answer in time", false};
    shared->ended.wait_for(lock, deadline.remaining());
  }
  return std::move(shared->result);
}

}  // namespace lockstep
