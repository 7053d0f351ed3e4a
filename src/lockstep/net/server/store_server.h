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
  /// A joined rank that was not heard of for longer is on the list of lost ranks until it is heard of again.
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
  /// Listens, and serves from now on. TCP port 0 is a free port: see `address()`. A Unix socket is accessible to this
  /// user alone; a socket file that a dead server left behind is replaced.
  /// @param secret  each connection must prove that it knows it. May be empty on Unix sockets (where the kernel tells
  /// who
  ///                connects) and on loopback addresses
  /// @throws Error  if the address is in use, cannot be resolved or is not of this host, or if the secret is empty and
  /// the
  ///                address neither a Unix socket nor loopback
  StoreServer(const SocketAddress& address, const std::string& secret, const StoreServerOptions& options = {});
  /// Ends all connections and removes the socket file.
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  /// Where it listens; with the port that the kernel chose. `address().text()` is a value for LOCKSTEP_STORE.
  const SocketAddress& address() const;

  /// Ranks of the newest generation (restart count) that left without a goodbye or fell silent, in that order.
  std::vector<LostRank> lost_ranks() const;
  /// Puts a rank on the list of lost ranks of `generation`: for a launcher, which knows how a process ended sooner and
  /// better than the socket does. Replaces the cause where the rank is on the list already.
  void mark_lost(std::int64_t generation, const LostRank& lost);

  /// Removes what the ranks of generations before `generation` left in the store.
  void forget_generations_before(std::int64_t generation);

  /// How many requests all clients have made, heartbeats and all: what a job costs its server.
  std::uint64_t requests() const;

  /// Waits until no joined rank is connected any more, and every rank of a join that failed has heard of it.
  /// @return  false where that is not so at the deadline
  bool wait_until_left(Deadline deadline);

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace lockstep
