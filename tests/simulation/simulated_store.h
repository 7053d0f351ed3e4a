#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/net/server/store_service.h"
#include "lockstep/net/store.h"
#include "tests/simulation/network.h"

namespace lockstep::simulation {

/// The job's store: the server that the launcher has, over simulated connections.
class SimulatedServer {
 public:
  SimulatedServer(Simulation& simulation, Network& network);

  /// @param on_answer  gets each answer when it arrives
  ConnectionId connect(const Process& process, std::function<void(const std::string&)> on_answer);
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
  /// All ranks of the first world have met: what their rendezvous does.
  void join(const std::vector<std::pair<ConnectionId, Peer>>& ranks);

 private:
  struct Client {
    const Process* process = nullptr;
    std::function<void(const std::string&)> on_answer;
    OrderedWay to_server;
    bool has_ended = false;
  };

  void answer(ConnectionId connection, const std::string& frame);

  Simulation& simulation_;
  Network& network_;
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

  Process& process_;
  SimulatedServer& server_;
  Points& points_;
  ConnectionId connection_;
  std::uint64_t request_ = 0;
  std::uint64_t park_ = 0;
  std::optional<std::string> answer_;
};

}  // namespace lockstep::simulation
