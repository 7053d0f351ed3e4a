#pragma once

#include <chrono>

#include "lockstep/launch/plan.h"
#include "lockstep/net/sockets/socket_address.h"
#include "lockstep/net/store/store_client.h"

namespace lockstep {

// How the launchers of several nodes reach the store that one of them serves.

/// The options with which a launcher of several nodes watches the store's server: it sends a heartbeat each
/// --monitor-interval, limited to 1 to 3 s and to a third of `silence`.
StoreClientOptions store_client_options(const LaunchPlan& plan, std::chrono::milliseconds silence);

/// The address that --master-addr and --master-port give; [::1] loses its brackets.
SocketAddress store_address_of(const LaunchPlan& plan);

}  // namespace lockstep
