#pragma once

#include <memory>
#include <string>

#include "lockstep/launch/nodes/host_entry.h"
#include "lockstep/net/server/store_server.h"
#include "lockstep/net/store/store_client.h"

namespace lockstep {

/// Serves a job's store.
/// @throws Error  as StoreServer; where another job listens at that address, it is named
std::unique_ptr<StoreServer> serve_job(const SocketAddress& address, const std::string& secret);

/// Writes into the store that this launcher serves whose it is: a launcher of another job that comes to its address is
/// refused by name, and disturbs nobody.
void sign_store(StoreClient& store, const HostEntry& self);

/// Reads it before anything is written. @throws Error  if the store is another job's, or no launcher's
void check_sign(StoreClient& store, const HostEntry& self);

}  // namespace lockstep
