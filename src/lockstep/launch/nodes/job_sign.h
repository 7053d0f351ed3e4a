#pragma once

#include <memory>
#include <string>

#include "lockstep/launch/nodes/host_entry.h"
#include "lockstep/net/server/store_server.h"
#include "lockstep/net/store/store_client.h"

namespace lockstep {

/// Serves a job's store.
/// @throws Error  as StoreServer; if another job listens at that address, the error names it
std::unique_ptr<StoreServer> serve_job(const SocketAddress& address, const std::string& secret);

/// Writes the job's identity into the store that this launcher serves, so that a launcher of another job that connects
/// there is refused by name and disturbs nothing.
void sign_store(StoreClient& store, const HostEntry& self);

/// Reads that identity before anything is written. @return  the launcher that serves
/// @throws Error  if the store belongs to another job, or to no launcher
HostEntry check_sign(StoreClient& store, const HostEntry& self);

}  // namespace lockstep
