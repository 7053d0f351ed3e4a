#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/detail/net/membership.h"
#include "lockstep/net/server/waiters.h"
#include "lockstep/net/store/store_client.h"

namespace lockstep {

/// The answer to clients that wait in `Roster::join`.
struct JoinOutcome {
  enum class Kind { Waiting, Complete, Failed, TimedOut };
  Kind kind = Kind::Waiting;
  std::vector<RequestId> to;
  std::vector<Peer> peers;  ///< for Complete: by rank
  int round = 0;            ///< for Complete
  std::string what;         ///< for Failed and TimedOut
  std::string fix;
};

/// Keeps which ranks have joined, and which are still awaited. This is the server's side of `StoreClient::join`; it
/// does no input or output.
///
/// Ranks of one generation meet in rounds. When all ranks of a round have joined, the next `join` starts another round,
/// so that a process may leave its group and form a new one on the same store. A failed round leaves nothing behind.
class Roster {
 public:
  struct Member {
    std::int64_t generation = 0;
    int round = 0;
    int world_size = 1;
    RequestId request;    // the number of its join
    bool waiting = true;  // for the others of its round
    Peer peer;
  };

  JoinOutcome join(RequestId id, const JoinRequest& request);
  /// Adds a process to the newest round that is complete, under a rank of its own that may be beyond the world's size:
  /// it wants to take the place of a lost rank, if the others let it. Does not wait.
  JoinOutcome enter(RequestId id, std::int64_t generation, const Peer& self);
  /// The ranks of `generation` have met on another server, which is lost.
  void resume(std::int64_t generation);
  /// The waiting member that made request `id` gives up, and with it all members of its round.
  JoinOutcome give_up(RequestId id);
  /// Removes the member of `connection`, if there is one. Its rank may be claimed again.
  std::optional<Member> remove(ConnectionId connection);
  const Member* find(ConnectionId connection) const;
  /// Whether a rank that has not joined yet must still learn that its round failed.
  bool has_ranks_to_tell() const;

 private:
  struct Failure {
    std::string what;
    std::string fix;
    int world_size = 1;
    std::set<int> told;
  };
  struct Generation {
    int rounds = 0;                       // completed rounds
    std::map<int, ConnectionId> waiting;  // members of the open round, by rank
    std::optional<Failure> failure;       // of an earlier round
  };

  JoinOutcome fail(std::int64_t generation, JoinOutcome::Kind kind, const std::string& what, const std::string& fix);
  JoinOutcome complete(std::int64_t generation);
  JoinOutcome fail_all(RequestId id, const JoinRequest& request, const std::string& what, const std::string& fix);
  std::optional<JoinOutcome> earlier_failure(RequestId id, const JoinRequest& request);
  std::optional<JoinOutcome> objection(RequestId id, const JoinRequest& request);

  std::map<ConnectionId, Member> members_;
  std::map<std::pair<std::int64_t, int>, ConnectionId> holders_;  // by generation and rank
  std::map<std::int64_t, Generation> generations_;
};

}  // namespace lockstep
