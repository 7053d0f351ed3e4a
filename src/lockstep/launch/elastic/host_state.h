#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/launch/elastic/coordinator_service.h"
#include "lockstep/launch/elastic/host_standing.h"
#include "lockstep/launch/elastic/messages.h"
#include "lockstep/launch/nodes/outcome_signal.h"
#include "lockstep/net/server/store_server.h"
#include "lockstep/net/store/store_client.h"

namespace lockstep {

/// What the launcher of a host that joins and leaves knows of its job. Its threads share it: the one that watches the
/// ranks, one that listens to the rendezvous, and one that sends reports.
struct HostState {
  HostEntry self;  ///< written before the host joins, when one thread uses it

  mutable std::mutex mutex;         ///< guards the members below
  std::condition_variable changed;  ///< of a generation, the job's end, where the store is
  SocketAddress address;            ///< of the store
  std::unique_ptr<StoreServer> server;
  std::unique_ptr<CoordinatorService> coordinator;
  std::shared_ptr<StoreClient> client;
  std::vector<Generation::Host> hosts;  ///< of the newest generation, as they are now
  bool runs = false;                    ///< ranks run, or are to start
  int restarts = 0;
  HostStanding standing;            ///< of this host's ranks
  std::optional<Generation> begun;  ///< a generation that has begun, whose ranks do not start here yet
  std::int64_t generation = 0;      ///< of the newest generation that this host is or was in
  std::optional<HostOrder> refusal;
  std::optional<Outcome> over;            ///< of the job
  std::optional<SocketAddress> moved_to;  ///< the job is served there
  bool returns = false;                   ///< has told the coordinator that it waits to join again
  bool joins = true;                      ///< true: it is not, or no longer, one of the coordinator's hosts
  std::string server_name;                ///< the server's host name, once it is known
  bool stopping = false;

  std::shared_ptr<StoreClient> client_now() const {
    const std::lock_guard lock(mutex);
    return client;
  }
  /// Null if another host serves.
  CoordinatorService* own_coordinator() const {
    const std::lock_guard lock(mutex);
    return coordinator.get();
  }
  bool is_ending() const {
    const std::lock_guard lock(mutex);
    return over || stopping;
  }
};

}  // namespace lockstep
