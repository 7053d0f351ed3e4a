#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/net/membership.h"
#include "lockstep/net/sockets/socket_address.h"
#include "lockstep/net/store.h"

namespace lockstep {

struct StoreClientOptions {
  /// Bound of calls that take no deadline: longer means that the server is stopped, or its host overloaded.
  std::chrono::milliseconds call_timeout{60000};
  std::chrono::milliseconds heartbeat_interval{1000};
  /// A server that sends nothing for longer, though each heartbeat asks it to answer, is lost: stopped, or its host is
  /// gone. Time during which this process itself did not run does not count. 0: only the end of the connection counts.
  std::chrono::milliseconds silence_limit{0};
  /// Where the calls come from, for errors: "rank 1 on host-a".
  std::string where;
};

/// The ranks that meet for a group.
struct JoinRequest {
  std::int64_t generation = 0;  ///< how often the launcher has restarted the job: ranks of different ones never meet
  int world_size = 1;
  Peer self;
};

struct JoinResult {
  std::vector<Peer> peers;  ///< by rank
  int round = 0;            ///< how many groups this generation's ranks formed before
};

/// A store that a StoreServer serves. Several threads may use it at once: a wait in one does not hold up the others.
///
/// After the connection is lost every call throws an Error that names the server. A process that forks must not use the
/// parent's client in the child: such calls throw.
class StoreClient : public Store {
 public:
  /// Connects, trying again while nobody listens there yet, and proves both sides' knowledge of `secret` to each other.
  /// @throws Error         if the server refuses the secret or does not know it, or is no Lockstep store
  /// @throws TimeoutError  if it cannot be reached by the deadline
  StoreClient(const SocketAddress& address, const std::string& secret, Deadline deadline,
              const StoreClientOptions& options = {});
  /// Closes the connection, without a goodbye: only `finish` says it.
  ~StoreClient() override;
  StoreClient(const StoreClient&) = delete;
  StoreClient& operator=(const StoreClient&) = delete;

  const SocketAddress& address() const;

  /// Tells the server who this is, and waits for the other ranks. From now on the server watches this connection: where
  /// it ends without `finish`, or falls silent, the rank is on `lost_ranks()`. Once per client.
  /// @throws Error         on all ranks, if two processes claim one rank, a rank is out of range or world sizes differ
  /// @throws TimeoutError  on all ranks, naming those that did not come, if one rank reaches its deadline
  JoinResult join(const JoinRequest& request, Deadline deadline);

  /// Appends `value` to a queue: the first one becomes the value of key "queue/1", and so on. @return  its number
  std::int64_t push(const std::string& queue, const std::string& value);
  /// From now on, where this connection ends without `finish`, or is silent for longer than `limit`, the server pushes
  /// `value` followed by the cause ("connection closed") to `queue`, once. Replaces what was said before.
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
  /// Of those that this client joined; none before `join`.
  std::vector<LostRank> lost_ranks() override;
  /// Says goodbye and closes the connection. Later calls throw.
  void finish(Deadline deadline) override;

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace lockstep
