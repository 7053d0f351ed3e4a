#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/detail/net/membership.h"
#include "lockstep/net/peers/job_key.h"
#include "lockstep/net/sockets/socket_address.h"
#include "lockstep/net/store.h"

namespace lockstep {

struct StoreClientOptions {
  /// Bound for calls that take no deadline. A longer wait means that the server is stopped, or its host overloaded.
  std::chrono::milliseconds call_timeout{60000};
  std::chrono::milliseconds heartbeat_interval{1000};
  /// A server that sends nothing for longer than this, although each heartbeat asks it to answer, counts as lost: it is
  /// stopped, or its host is unreachable. Time during which this process itself did not run does not count. 0: only the
  /// end of the connection counts.
  std::chrono::milliseconds silence_limit{0};
  /// The caller's name in errors: "rank 1 on host-a".
  std::string where;
};

/// The ranks that meet for a group.
struct JoinRequest {
  std::int64_t generation = 0;  ///< number of the launcher's restarts; different generations never meet
  int world_size = 1;
  Peer self;
};

struct JoinResult {
  std::vector<Peer> peers;  ///< by rank
  int round = 0;            ///< how many groups the ranks of this generation formed before
};

/// A store that a StoreServer serves. Several threads may use it at once: a wait in one does not block the others.
///
/// After the connection is lost, every call throws an Error that names the server. A forked child must not use the
/// parent's client: its calls throw.
class StoreClient : public Store, public KeyedStore {
 public:
  /// Connects, with new attempts while no process listens there yet. Client and server prove to each other that they
  /// know `secret`.
  /// @throws Error  if the server refuses the secret or does not know it, or is not a Lockstep store
  /// @throws TimeoutError  if it cannot be reached by the deadline
  StoreClient(const SocketAddress& address, const std::string& secret, Deadline deadline,
              const StoreClientOptions& options = {});
  /// Closes the connection without leaving: only `finish` leaves.
  ~StoreClient() override;
  StoreClient(const StoreClient&) = delete;
  StoreClient& operator=(const StoreClient&) = delete;

  const SocketAddress& address() const;
  /// The numeric address of this host by which it reached the server; empty over a Unix socket.
  std::string own_end() const;

  /// Registers this rank with the server, and waits for the other ranks. From now on the server watches this
  /// connection: if it ends without `finish`, or falls silent, the rank appears in `lost_ranks()`. Call it once per
  /// client.
  /// @throws Error  on all ranks, if two processes claim one rank, a rank is out of range or world sizes differ
  /// @throws TimeoutError  on all ranks, naming those that did not arrive, if one rank reaches its deadline
  JoinResult join(const JoinRequest& request, Deadline deadline);

  /// Registers this process in the place where the ranks of `request.generation` met last, under the rank of
  /// `request.self`, which may be beyond their world size. It is watched as a rank that joined, and does not wait.
  /// @return  the round of that meeting, and this process alone as peer
  /// @throws Error  if they have not met, or another process has that rank
  JoinResult enter(const JoinRequest& request, Deadline deadline);

  /// Appends `value` to a queue: the first value is stored under key "queue/1", and so on. @return  its number
  std::int64_t push(const std::string& queue, const std::string& value);
  /// From now on, if this connection ends without `finish`, or is silent for longer than `limit`, the server pushes
  /// `value` followed by the cause ("connection closed") to `queue`, once. Replaces an earlier will.
  void set_will(const std::string& queue, const std::string& value, std::chrono::milliseconds limit);

  void set(const std::string& key, const std::string& value) override;
  std::string get(const std::string& key, Deadline deadline) override;
  std::optional<std::string> try_get(const std::string& key) override;
  std::vector<std::optional<std::string>> try_get_all(const std::vector<std::string>& keys) override;
  std::int64_t add(const std::string& key, std::int64_t delta) override;
  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) override;
  bool delete_key(const std::string& key) override;
  void wait(const std::vector<std::string>& keys, Deadline deadline) override;
  std::int64_t num_keys() override;
  /// Lost ranks of the group that this client joined; empty before `join`.
  std::vector<LostRank> lost_ranks() override;
  /// Ends the connection as if it were lost, for `reason`: calls throw StoreLostError, those that wait now, too.
  void abandon(const std::string& reason);
  /// Leaves and closes the connection. Later calls throw.
  void finish(Deadline deadline) override;
  std::string job_key() const override;

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace lockstep
