#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/net/store.h"

namespace lockstep {

class Patience;

/// One rank of a group, as the others need to know it.
struct Peer {
  int global_rank = 0;  ///< rank in the whole job
  std::string host;     ///< host name, for messages
  std::string host_id;  ///< equal for two ranks exactly if they can share memory (see base/processor/topology.h)
  pid_t pid = 0;
  int local_rank = 0;  ///< rank among those of the same host
};

/// Who is in a group, and the store that its members share: all that a communicator needs to come up.
struct Membership {
  int rank = 0;  ///< of this process, in [0, world_size)
  int world_size = 1;
  std::string group = "default";         ///< the same on every member, unique in the job; also the prefix of its keys
  std::vector<Peer> peers;               ///< by rank, `world_size` of them
  std::shared_ptr<Store> store;          ///< keys already carry the group's prefix
  std::chrono::milliseconds timeout{0};  ///< a collective that takes longer has failed, while nobody works (LongWork)
  /// Bound of the coming up of the group's connections; nothing: `timeout`.
  std::optional<std::chrono::milliseconds> join_timeout;
  /// Of a group that is a part of a larger one, which knows all ranks and says better who is late: so much later the
  /// part gives up by itself. Nothing else is heard of it meanwhile.
  std::chrono::milliseconds rear_guard{0};
  std::shared_ptr<Patience> patience;  ///< of this rank; a communicator makes it, and those split off share it

  bool is_part() const { return rear_guard.count() > 0; }
  /// Of a collective that begins now.
  Deadline deadline() const;
  /// Of the coming up of the group, if it begins now.
  Deadline join_deadline() const;
  const Peer& self() const { return peers.at(static_cast<std::size_t>(rank)); }
  bool on_one_host() const {
    for (const Peer& peer : peers) {
      if (peer.host_id != peers.front().host_id) return false;
    }
    return true;
  }
  /// True also where all share one machine's network, and some are in containers that number processes on their own.
  bool on_one_network() const;
  /// "rank 1 of 4 on host-a", for the where line of errors.
  std::string where() const;
};

}  // namespace lockstep
