#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/net/sockets/socket_address.h"
#include "lockstep/net/store.h"

namespace lockstep {

/// Bounds that keep one client, or a stranger, from harming the others. The defaults suit jobs of thousands of ranks.
struct StoreServerOptions {
  /// A joined rank that sent nothing for longer than this is on the list of lost ranks until it sends again.
  std::chrono::milliseconds heartbeat_timeout{5000};
  /// A connection must have proven that it knows the secret within this time.
  std::chrono::milliseconds handshake_timeout{5000};
  std::size_t max_unproven_connections = 256;  ///< the oldest is dropped for a new one
  std::size_t max_clients = 16384;
};

/// Serves a store on a socket, from one thread of its own, to clients (StoreClient) that know the job's secret.
///
/// Wire format, handshake and limits: docs/reference/store.md. All members are thread-safe.
class StoreServer {
 public:
  /// Listens, and serves from now on. TCP port 0 means a free port: see `address()`. A Unix socket is accessible only
  /// to this user; a socket file of a dead server is replaced.
  /// @param secret  each connection must prove that it knows the secret. May be empty on Unix sockets (where the kernel
  /// reports which user connects) and on loopback addresses
  /// @throws Error  if the address is in use, cannot be resolved or is not of this host, or if the secret is empty and
  /// the address is neither a Unix socket nor loopback
  StoreServer(const SocketAddress& address, const std::string& secret, const StoreServerOptions& options = {});
  /// Ends all connections and removes the socket file.
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  /// The address where it listens, with the port that the kernel chose. `address().text()` is a value for
  /// LOCKSTEP_STORE.
  const SocketAddress& address() const;

  /// Ranks of the newest generation (restart count) whose connection ended without leaving, or fell silent, in the
  /// order in which they did.
  std::vector<LostRank> lost_ranks() const;
  /// Puts a rank on the list of lost ranks of `generation`. A launcher calls this, because it learns how a process
  /// ended sooner and better than the socket does. If the rank is already on the list, its cause is replaced.
  void mark_lost(std::int64_t generation, const LostRank& lost);

  /// The ranks of `generation` have met on another server, which is lost: each may enter here (StoreClient::enter).
  void resume_generation(std::int64_t generation);
  /// Removes what the ranks of earlier generations left in the store.
  void forget_generations_before(std::int64_t generation);

  /// How many requests all clients have made, heartbeats included: the load that a job puts on its server.
  std::uint64_t requests() const;

  /// Waits until no joined rank is connected any more, and every rank of a failed join has been told of the failure.
  /// @return  false if that is not so at the deadline
  bool wait_until_left(Deadline deadline);

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace lockstep
