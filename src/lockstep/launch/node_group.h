#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/base/unique_fd.h"
#include "lockstep/launch/plan.h"
#include "lockstep/net/store_client.h"
#include "lockstep/net/store_server.h"

namespace lockstep {

/// What the launchers of all nodes agreed on before the ranks start.
struct Agreement {
  int node_rank = 0;
  int first_rank = 0;  ///< rank of local rank 0 of this node
  int world_size = 1;
  std::uint16_t master_port = 0;
};

/// The launchers of a job's nodes: who they are, and what became of each attempt. They meet in the job's store, which
/// the launcher of node 0 serves; a job of one node has one launcher and no peers to ask.
class NodeGroup {
 public:
  /// What became of an attempt.
  struct Outcome {
    bool well = false;
    bool is_final = false;  ///< no use to try again
    std::string story;      ///< of the node that failed first
  };

  /// Serves the store, or finds it. On several nodes this waits for all of them.
  /// @param socket  path of the Unix socket to serve on, where there is one node
  /// @throws Error         if two launchers claim a node rank, or differ in --nnodes or --max-restarts
  /// @throws TimeoutError  naming the nodes that did not come
  NodeGroup(const LaunchPlan& plan, const std::string& socket);
  ~NodeGroup();
  NodeGroup(const NodeGroup&) = delete;
  NodeGroup& operator=(const NodeGroup&) = delete;

  std::string store_address() const { return address_.text(); }
  const std::string& secret() const { return secret_; }
  int node_rank() const { return node_rank_; }

  /// Begins attempt number `attempt` when all nodes are ready for it.
  Agreement agree(int attempt);
  /// Tells the ranks of all nodes, if this node serves the store, that one is gone: sooner than its socket shows it.
  void mark_lost(int rank, const std::string& cause);
  /// Tells the other nodes that the attempt has failed here, and how; the first to say so counts.
  void report_failure(const std::string& story, bool is_final = false);
  /// Tells the other nodes that all ranks of this one have ended well.
  void report_well();

  /// Readable once the attempt's outcome is known: one node failed, or all ended well.
  int news_fd() const { return news_.get(); }
  std::optional<Outcome> outcome() const;
  /// Says goodbye, and waits a little for the others where they need this node's store.
  void leave();

 private:
  void serve_or_find();
  void enroll();
  void watch_outcome();
  void look_after_others();
  void publish(const Outcome& outcome);
  void stop_watching();
  std::string key(const std::string& what) const;

  const LaunchPlan& plan_;
  SocketAddress address_;
  std::string secret_;
  int node_rank_ = 0;
  std::vector<int> ranks_per_node_;
  int attempt_ = 0;
  std::unique_ptr<StoreServer> server_;
  std::unique_ptr<StoreClient> client_;  // only on several nodes
  UniqueFd news_;
  std::thread watcher_;
  std::map<int, std::pair<std::string, Deadline>> heard_;  // of the watcher: last sign of each node, and its limit
  std::atomic<bool> stop_{false};
  std::atomic<bool> lost_one_{false};
  mutable std::mutex mutex_;
  std::optional<Outcome> outcome_;
};

}  // namespace lockstep
