#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/net/server/key_table.h"
#include "lockstep/net/server/lost_list.h"
#include "lockstep/net/server/roster.h"
#include "lockstep/net/server/waiters.h"
#include "lockstep/net/server/wills.h"
#include "lockstep/net/store/store_protocol.h"

namespace lockstep {

/// Answers the requests of a store's clients: the server without its sockets. One thread at a time.
class StoreService {
 public:
  using Clock = Deadline::Clock;
  /// Takes an answer for a connection. It must not call the service.
  using Send = std::function<void(ConnectionId, const std::string&)>;

  /// @param where  the store's name, for errors
  StoreService(const std::string& where, Send send) : table_(where), send_(std::move(send)) {}

  /// Handles one frame of a client that has proven itself. @throws WireError  if it is malformed: the connection must
  /// end
  void handle(ConnectionId connection, std::string_view frame, Clock::time_point now);
  /// A connection ended. If it had joined and not left, its rank is lost.
  void disconnected(ConnectionId connection, const std::string& cause);
  /// Puts ranks that were silent for longer than `limit` on the list of lost ranks. Carries out the wills of clients
  /// that were silent for longer than they promised.
  void check_heartbeats(Clock::time_point now, std::chrono::milliseconds limit);
  /// The server itself did not run for `pause`, which does not count as silence of the clients.
  void forgive(std::chrono::nanoseconds pause);

  std::vector<LostRank> lost_ranks() const { return lost_.of(newest_generation_); }
  void mark_lost(std::int64_t generation, const LostRank& lost);
  /// The ranks of `generation` have met on another server, which is lost: each may enter here.
  void resume_generation(std::int64_t generation);
  /// Removes what ranks of earlier generations left: keys and lost ranks.
  void forget_generations_before(std::int64_t generation);
  /// How many requests were handled, heartbeats included. From any thread.
  std::uint64_t requests() const { return requests_; }
  /// True if every connection that ever asked to join has left, and no rank must be told of a failure.
  bool all_left() const { return joiners_.empty() && !roster_.has_ranks_to_tell(); }

 private:
  struct Heard {
    Clock::time_point last;
    bool silent = false;
  };

  void dispatch(RequestId id, StoreOperation operation, WireReader& fields, Clock::time_point now);
  void handle_set(RequestId id, WireReader& fields);
  void handle_get(RequestId id, WireReader& fields);
  void handle_try_get(RequestId id, WireReader& fields);
  void handle_try_get_all(RequestId id, WireReader& fields);
  void handle_add(RequestId id, WireReader& fields);
  void handle_compare_set(RequestId id, WireReader& fields);
  void handle_delete(RequestId id, WireReader& fields);
  void handle_wait(RequestId id, WireReader& fields);
  void handle_join(RequestId id, WireReader& fields);
  void handle_enter(RequestId id, WireReader& fields);
  void handle_leave(RequestId id, WireReader& fields);
  void handle_cancel(RequestId id, WireReader& fields);
  void handle_push(RequestId id, WireReader& fields);
  void handle_will(RequestId id, WireReader& fields, Clock::time_point now);
  std::int64_t push(const std::string& queue, const std::string& value);
  void carry_out(const Wills::Will& will, const std::string& cause);
  void add_waiter(RequestId id, std::vector<std::string> keys, bool wants_value);
  void key_was_set(const std::string& key);
  void publish(const JoinOutcome& outcome);
  std::vector<LostRank> lost_ranks_seen_by(ConnectionId connection) const;

  void answer(RequestId id, StoreStatus status, std::string_view fields = {});
  void fail(RequestId id, StoreStatus status, const std::string& what, const std::string& fix);

  KeyTable table_;
  Send send_;
  Waiters waiters_;
  Roster roster_;
  LostList lost_;
  Wills wills_;
  std::atomic<std::uint64_t> requests_{0};
  std::int64_t newest_generation_ = 0;
  std::int64_t forgotten_before_ = 0;
  std::set<ConnectionId> joiners_;       // connections that asked to join and have not left
  std::map<ConnectionId, Heard> heard_;  // for each joiner
};

}  // namespace lockstep
