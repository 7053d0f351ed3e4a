#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lockstep/launch/nodes/outcome_news.h"
#include "lockstep/launch/plan.h"
#include "lockstep/net/sockets/socket_address.h"
#include "lockstep/net/store/store_client.h"

namespace lockstep {

/// What the launchers of all nodes agreed on before the ranks start.
struct Agreement {
  std::int64_t generation = 0;  ///< how often ranks were started before, whatever the reason
  int restarts = 0;             ///< of these, after a failure
  int nodes = 1;
  int node_rank = 0;
  int first_rank = 0;  ///< rank of local rank 0 of this node
  int world_size = 1;
  std::uint16_t master_port = 0;
};

/// The launchers of a job's nodes: who they are, and what became of each start of the ranks. They meet in the job's
/// store.
class NodeGroup {
 public:
  virtual ~NodeGroup() = default;

  virtual std::string store_address() const = 0;
  virtual const std::string& secret() const = 0;
  virtual int node_rank() const = 0;

  /// Waits until the ranks may start, again after the first time. @throws Error  if the job ends instead
  virtual Agreement agree() = 0;
  /// Tells the ranks of all nodes, if this node serves the store, that one is gone: sooner than its socket shows it.
  virtual void mark_lost(int rank, const std::string& cause) = 0;
  /// Tells the other nodes that a rank has failed here, and how; the first to say so counts.
  /// @param blames_a_peer  the rank said that it had lost another one
  virtual void report_failure(const std::string& story, bool blames_a_peer) = 0;
  /// Tells them that this launcher ends, and why.
  virtual void report_leaving(const std::string& why) = 0;
  /// Tells them that all ranks of this node have ended well.
  virtual void report_well() = 0;

  /// What became of the ranks since `agree`.
  const OutcomeNews& news() const { return news_; }
  /// Says goodbye, and waits a little for the others where they need this node's store.
  virtual void leave() = 0;
  /// Ends such a goodbye at once, from another thread.
  virtual void cut_goodbye_short() = 0;

 protected:
  OutcomeNews news_;
};

/// One node; or several, of which the number is fixed; or several that come and go, as the plan says. Where this node
/// is to serve the store, it does so from now on; where not, it is looked for.
/// @param socket  path of the Unix socket to serve on, where there is one node
/// @throws Error         if the address is taken, or the nodes do not fit together
/// @throws TimeoutError  naming what did not come
std::unique_ptr<NodeGroup> make_node_group(const LaunchPlan& plan, const std::string& socket);

/// How a launcher of several nodes keeps in touch with the store: it looks after the server each --monitor-interval, of
/// which 1 to 3 s count, and less than a third of `silence`.
StoreClientOptions store_client_options(const LaunchPlan& plan, std::chrono::milliseconds silence);

/// The address that --master-addr and --master-port name; [::1] loses its brackets.
SocketAddress store_address_of(const LaunchPlan& plan);

}  // namespace lockstep
