#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "lockstep/base/deadline.h"
#include "lockstep/launch/nodes/free_port.h"
#include "lockstep/launch/nodes/host_entry.h"
#include "lockstep/launch/nodes/node_enrolment.h"
#include "lockstep/launch/nodes/node_group.h"
#include "lockstep/launch/nodes/store_notifier.h"
#include "lockstep/launch/nodes/wait_notice.h"
#include "lockstep/net/server/store_server.h"
#include "lockstep/net/store/store_client.h"

namespace lockstep {

/// Nodes whose number and ranks are given; all of them must join. Node 0 serves the store, unless `is_host` decides
/// otherwise.
class StaticNodes : public NodeGroup {
 public:
  /// Waits for all nodes.
  /// @throws Error  if another job is served there, two launchers claim one node rank, or their plans differ
  /// @throws TimeoutError  naming the nodes that did not arrive
  explicit StaticNodes(const LaunchPlan& plan);
  ~StaticNodes() override;
  StaticNodes(const StaticNodes&) = delete;
  StaticNodes& operator=(const StaticNodes&) = delete;

  std::string store_address() const override { return address_.text(); }
  const std::string& secret() const override { return secret_; }
  int node_rank() const override { return node_rank_; }
  Agreement agree() override;
  void mark_lost(int rank, const std::string& cause) override;
  void ask_for_member() override;
  void report_survival() override;
  void report_no_ranks(const std::string& story) override;
  void report_failure(const RankFailure& failure) override;
  void report_leaving(const std::string& why) override;
  void report_success() override;
  void leave() override;
  void abort_leave() override;

 private:
  void connect();
  void enroll();
  void count(std::int64_t change, const std::string& story);
  int successors();
  void push_failure(const std::string& story, int attempt, int max_restarts);
  void watch_outcome();
  Outcome wait_for_outcome();
  void set_last_will(const std::string& queue);

  const LaunchPlan& plan_;
  SocketAddress address_;
  std::string secret_;
  HostEntry self_;
  int node_rank_ = 0;
  int attempt_ = 0;
  int first_successor_ = 0;  // number of the first process that takes a lost rank's place
  bool has_no_ranks_ = false;
  std::optional<HeldPort> port_;  // of the attempt, for its programs
  std::unique_ptr<StoreServer> server_;
  std::unique_ptr<StoreClient> client_;
  std::optional<NodeEnrolment> enrolment_;
  std::thread watcher_;  // waits for the outcome of an attempt
  std::atomic<bool> lost_one_{false};
  WaitNotice notice_;
  StoreNotifier notifier_;  // declared last, because it uses the others
};

}  // namespace lockstep
