#pragma once

#include <string>

#include "lockstep/launch/nodes/host_entry.h"
#include "lockstep/launch/nodes/wait_notice.h"
#include "lockstep/launch/plan.h"
#include "lockstep/net/store/store_client.h"

namespace lockstep {

/// The store's key of something in one attempt of the nodes' ranks.
std::string attempt_key(int attempt, const std::string& what);

/// How the launchers of nodes whose ranks are given find each other, before the first attempt.
class NodeEnrolment {
 public:
  /// @param plan, client  outlive this object
  NodeEnrolment(const LaunchPlan& plan, StoreClient& client, HostEntry self, int node_rank)
      : plan_(plan), client_(client), self_(std::move(self)), node_rank_(node_rank) {}

  /// Claims this node's rank. A launcher that ended before all nodes had joined may be started again.
  /// @param serves  it serves the store: if it is lost, so is the store. @throws Error  if another launcher has the
  /// rank
  void claim_rank(bool serves);
  /// @param notice  says who is missing. It ends before this object does
  /// @throws TimeoutError, Error  if a node does not join in time, or has another plan
  void await_all(WaitNotice& notice);
  /// A launcher may have joined and ended while others were awaited; waiting for it would be useless.
  /// @throws Error  if that of `node` has
  void check_still_there(int node);

 private:
  bool has_begun();
  std::string last_in(const std::string& queue);
  std::string missing_nodes(int from);

  const LaunchPlan& plan_;
  StoreClient& client_;
  const HostEntry self_;
  const int node_rank_;
};

}  // namespace lockstep
