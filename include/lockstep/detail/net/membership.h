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

/// A rank's data that the other ranks of its group need.
struct Peer {
  int global_rank = 0;  ///< rank in the whole job
  std::string host;     ///< host name, for messages
  std::string host_id;  ///< equal for two ranks exactly if they can share memory (see base/processor/topology.h)
  pid_t pid = 0;
  int local_rank = 0;  ///< rank among the ranks of its host
};

/// The ranks of a group, and the store that they share: all that a communicator needs to connect.
struct Membership {
  int rank = 0;  ///< this process's rank, in [0, world_size)
  int world_size = 1;
  std::string group = "default";  ///< equal on every member, unique in the job; also the prefix of the group's keys
  std::vector<Peer> peers;        ///< by rank, `world_size` of them
  std::shared_ptr<Store> store;   ///< keys already carry the group's prefix
  std::chrono::milliseconds timeout{0};  ///< a collective that takes longer fails, unless a rank does LongWork
  /// Bound for connecting the group; nothing: `timeout`.
  std::optional<std::chrono::milliseconds> join_timeout;
  /// Extra time, if this group is part of a larger one: the part gives up this much later than the larger group does.
  /// The larger group knows all ranks, so its error names the late ones better.
  std::chrono::milliseconds rear_guard{0};
  /// How often a rank looks for the reason while an operation does not end. How often it reports to the others and asks
  /// the store meanwhile is in proportion. Each rank may have its own.
  std::chrono::milliseconds look_interval{50};
  std::shared_ptr<Patience> patience;  ///< this rank's own; groups split off from this one share it

  bool is_part() const { return rear_guard.count() > 0; }
  /// The deadline of a collective that begins now.
  Deadline deadline() const;
  /// The deadline for connecting the group, if that begins now.
  Deadline join_deadline() const;
  const Peer& self() const { return peers.at(static_cast<std::size_t>(rank)); }
  bool on_one_host() const {
    for (const Peer& peer : peers) {
      if (peer.host_id != peers.front().host_id) return false;
    }
    return true;
  }
  /// Whether all ranks share one machine's network. Some may run in containers that number their processes separately.
  bool on_one_network() const;
  /// "rank 1 of 4 on host-a", for the `where` line of errors.
  std::string where() const;
};

}  // namespace lockstep
