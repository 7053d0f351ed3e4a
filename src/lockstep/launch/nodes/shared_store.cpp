#include "lockstep/launch/nodes/shared_store.h"

#include <algorithm>

#include "lockstep/launch/launcher_name.h"

namespace lockstep {
namespace {

constexpr std::chrono::milliseconds kLeastLookInterval{1000};
constexpr std::chrono::milliseconds kMostLookInterval{3000};

}  // namespace

StoreClientOptions store_client_options(const LaunchPlan& plan, std::chrono::milliseconds silence) {
  StoreClientOptions options;
  options.where = at_launcher("rendezvous");
  options.heartbeat_interval =
      std::min(std::clamp(plan.monitor_interval, kLeastLookInterval, kMostLookInterval), silence / 3);
  return options;
}

SocketAddress store_address_of(const LaunchPlan& plan) {
  const std::string& host = plan.master_addr;
  const bool in_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  return SocketAddress::tcp(in_brackets ? host.substr(1, host.size() - 2) : host, plan.master_port);
}

}  // namespace lockstep
