#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/net/server/store_service.h"
#include "lockstep/net/store.h"
#include "lockstep/net/worlds/store_move.h"
#include "tests/simulation/network.h"

namespace lockstep::simulation {

/// The job's store: the server that a host's launcher has, over simulated connections.
class SimulatedServer {
 public:
  /// What a client gets.
  struct Ear {
    std::function<void(const std::string&)> on_answer;
    std::function<void()> on_end;  ///< of the connection, by the server
  };

  /// @param era  how many servers of the job were lost before
  SimulatedServer(Simulation& simulation, Network& network, int host, std::int64_t era);

  int host() const { return host_; }
  std::int64_t era() const { return era_; }
  ConnectionId connect(const Process& process, Ear ear);
  /// The launcher is killed: each client notices the end of its connection after a while of its own.
  void die();
  /// A message of the client, which arrives later.
  void send(ConnectionId connection, const std::string& frame);
  /// The client's process ended: the connection ends behind all that was sent.
  void end(ConnectionId connection);

  /// What the launcher knows by the end of its child, which may be sooner.
  void mark_lost(const Peer& peer, const std::string& cause);
  /// A process has read the list of a world: all must read the same one.
  void note_world(const std::string& key, const std::string& list);
  /// Looks for clients that are silent, as the server does each second.
  void look_for_silence();
  /// The ranks of the job have met on an earlier server.
  void resume() { service_.resume_generation(0); }
  /// All ranks of the first world have met: what their rendezvous does.
  void join(const std::vector<std::pair<ConnectionId, Peer>>& ranks);

 private:
  struct Client {
    const Process* process = nullptr;
    Ear ear;
    OrderedWay to_server;
    bool has_ended = false;
  };

  void answer(ConnectionId connection, const std::string& frame);
  void notify_end(ConnectionId connection);

  Simulation& simulation_;
  Network& network_;
  const int host_;
  const std::int64_t era_;
  bool is_dead_ = false;
  StoreService service_;
  std::map<ConnectionId, Client> clients_;
  std::map<std::string, std::string> worlds_;  // that processes have read
  ConnectionId next_ = 1;
};

/// The client's side, in one process: each call is a request that takes time, and the process may be killed before it
/// is sent, before it arrives, or before its answer does.
class SimulatedStore : public Store {
 public:
  SimulatedStore(Process& process, SimulatedServer& server, Points& points);

  ConnectionId connection() const { return connection_; }
  /// How many servers were lost before the present one.
  std::int64_t era() const { return server_->era(); }
  /// @param take  is called when a request to be let in is complete
  void on_request(std::function<void()> take) { on_request_ = std::move(take); }
  /// The process has ended, and with it its connection.
  void end() { server_->end(connection_); }
  /// The launcher tells where the store is now; the connection to the earlier one ends.
  void tell(SimulatedServer& server, const std::set<int>& roll);
  /// Waits until the launcher has told it, connects, and registers.
  StoreMove follow(const Peer& self);
  /// A new process registers itself. @throws Error  if the server refuses
  void enter(const Peer& self);
  /// The process leaves in order.
  void finish(Deadline deadline) override;

  void set(const std::string& key, const std::string& value) override;
  std::string get(const std::string& key, Deadline deadline) override;
  std::optional<std::string> try_get(const std::string& key) override;
  std::vector<std::optional<std::string>> try_get_all(const std::vector<std::string>& keys) override;
  std::int64_t add(const std::string& key, std::int64_t delta) override;
  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) override;
  bool delete_key(const std::string& key) override;
  void wait(const std::vector<std::string>& keys, Deadline deadline) override;
  std::int64_t num_keys() override;
  std::vector<LostRank> lost_ranks() override;

 private:
  std::string call(StoreOperation operation, const WireWriter& fields);
  void take_answer(const std::string& frame);

  SimulatedServer::Ear ear();
  void lose(const SimulatedServer& server);

  Process& process_;
  SimulatedServer* server_;
  Points& points_;
  ConnectionId connection_;
  std::function<void()> on_request_;
  bool is_lost_ = false;
  SimulatedServer* told_ = nullptr;  // not followed yet; null: none
  std::set<int> roll_;
  std::uint64_t request_ = 0;
  std::uint64_t park_ = 0;
  std::optional<std::string> answer_;
};

}  // namespace lockstep::simulation
