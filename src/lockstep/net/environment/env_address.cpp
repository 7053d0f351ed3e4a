#include "lockstep/net/environment/env_address.h"

#include <fmt/format.h>

#include <cstring>

#include "lockstep/base/deadline.h"
#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/net/hmac.h"
#include "lockstep/net/launcher_environment.h"
#include "lockstep/net/sockets/resolve.h"
#include "lockstep/net/sockets/runtime_folder.h"
#include "lockstep/net/sockets/stale_sockets.h"

namespace lockstep {
namespace {

constexpr std::int64_t kLastPort = 65535;
constexpr std::size_t kSocketNameDigits = 24;
constexpr const char* kSocketEnding = ".socket";

[[noreturn]] void missing(const std::string& variable) {
  throw Error(
      variable + " is not set", "rendezvous by env:// on " + host_name(),
      "start the program with `lockstep run` or torchrun, or set MASTER_ADDR and MASTER_PORT to where rank 0 is to be "
      "met, the same for all ranks");
}

// Rank 0 would listen at an address that ranks on other hosts cannot reach.
void warn_about_loopback(const std::string& host) {
  for (const IpAddress& address : resolve(host, 0, Deadline::after(std::chrono::seconds(10))).addresses) {
    if (!address.is_loopback()) return;
  }
  log_warning(
      "MASTER_ADDR {} is a loopback address on this host, but the job has ranks on other hosts; set it to an address "
      "that they can reach",
      host);
}

}  // namespace

SocketAddress address_from_environment(int world_size) {
  const auto local_world_size = env_int("LOCAL_WORLD_SIZE");
  const auto job = mpi_job();
  if (job && !env_string("MASTER_ADDR") && local_world_size && *local_world_size == world_size) {
    return SocketAddress::unix_socket(private_runtime_folder() + "/" + unique_socket_name({*job}));
  }
  const auto host = env_string("MASTER_ADDR");
  const auto port = env_int("MASTER_PORT");
  if (!host) missing("MASTER_ADDR");
  if (!port) missing("MASTER_PORT");
  if (local_world_size && *local_world_size == world_size) {
    const auto value = [](const char* name) { return env_string(name).value_or(""); };
    const std::string name = unique_socket_name(
        {value("TORCHELASTIC_RUN_ID"), *host, std::to_string(*port), value("TORCHELASTIC_RESTART_COUNT")});
    return SocketAddress::unix_socket(private_runtime_folder() + "/" + name);
  }
  const bool agent_serves_there = env_bool("TORCHELASTIC_USE_AGENT_STORE").value_or(false);
  const std::int64_t used = *port + (agent_serves_there ? 1 : 0);
  if (*port < 1 || used > kLastPort) {
    throw Error(fmt::format("MASTER_PORT is {}{}", *port, agent_serves_there ? ", and the port above is needed" : ""),
                "rendezvous by env:// on " + host_name(),
                "set it to a free port from 1 to 65534, the same for all ranks");
  }
  if (local_world_size && *local_world_size < world_size) warn_about_loopback(*host);
  return SocketAddress::tcp(*host, static_cast<std::uint16_t>(used));
}

std::string unique_socket_name(const std::vector<std::string>& parts) {
  std::string joined;
  for (const std::string& part : parts) joined += fmt::format("{}:{},", part.size(), part);
  const std::string digest = to_hex(hmac_sha256("lockstep socket name", {joined})).substr(0, kSocketNameDigits);
  return kernel_mark() + "-" + digest + kSocketEnding;
}

bool is_unique_socket_name(const std::string& name) {
  const std::string mark = kernel_mark() + "-";
  if (name.compare(0, mark.size(), mark) != 0) return false;
  const std::string rest = name.substr(mark.size());
  return rest.size() == kSocketNameDigits + std::strlen(kSocketEnding) &&
         rest.find_first_not_of("0123456789abcdef") == kSocketNameDigits &&
         rest.compare(kSocketNameDigits, std::string::npos, kSocketEnding) == 0;
}

}  // namespace lockstep
