#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/launch/elastic/coordinator_service.h"
#include "lockstep/launch/elastic/endpoint_watch.h"
#include "lockstep/launch/elastic/host_standing.h"
#include "lockstep/launch/elastic/messages.h"
#include "lockstep/launch/nodes/free_port.h"
#include "lockstep/launch/nodes/node_group.h"
#include "lockstep/launch/nodes/store_notifier.h"
#include "lockstep/launch/nodes/wait_notice.h"
#include "lockstep/net/server/store_server.h"
#include "lockstep/net/store/store_client.h"

namespace lockstep {

/// This launcher's side of a job whose hosts join and leave. The launcher that can listen on the endpoint serves the
/// store and the coordinator. If it is lost, the next host of the world does, at an address that all know beforehand.
/// Node ranks follow the order in which hosts joined, the serving host first.
class ElasticNodes : public NodeGroup {
 public:
  /// Connects. @throws Error, TimeoutError  if that fails
  /// @param store_file  path of a file that tells this host's ranks where the store is once it has moved
  ElasticNodes(const LaunchPlan& plan, std::string store_file);
  ~ElasticNodes() override;
  ElasticNodes(const ElasticNodes&) = delete;
  ElasticNodes& operator=(const ElasticNodes&) = delete;

  std::string store_address() const override;
  const std::string& secret() const override { return secret_; }
  int node_rank() const override { return node_rank_; }
  std::string store_file() const override { return store_file_; }
  Agreement agree() override;
  void mark_lost(int member, const std::string& cause) override;
  void note_success(int member) override;
  void ask_for_member() override;
  void await_survival(const std::vector<std::string>& files) override;
  void report_survival() override;
  void report_no_ranks(const std::string& story) override;
  void report_failure(const RankFailure& failure) override;
  void report_leaving(const std::string& why) override;
  void report_success() override;
  void leave() override;
  void abort_leave() override;

 private:
  Coordinator::Times times() const;
  std::chrono::milliseconds silence_limit() const;
  void serve_or_find();
  void hold_standby();
  void enter();
  void listen();
  void take(const HostOrder& order);
  void report(HostReport::Kind kind, const std::string& text = {});
  void leave_store(Deadline deadline);
  void lose_server(const std::string& cause);
  void push(const HostReport& report);
  HostReport new_report(HostReport::Kind kind, const std::string& text) const;
  void report_gone(int member, const std::string& cause);
  std::shared_ptr<StoreClient> client() const;

  // After the serving host is lost: elastic_takeover.cpp.
  bool take_over(const std::string& cause);
  std::shared_ptr<StoreClient> serve_next(const Coordinator::Takeover& takeover);
  std::shared_ptr<StoreClient> find_next(const World::Host& host);
  void resume(const std::shared_ptr<StoreClient>& client);
  void continue_here(const HostOrder& order);
  void move_to(const SocketAddress& address);
  bool is_ending() const;
  CoordinatorService* own_coordinator() const;
  void begin(const World& world);
  World await_world();
  Agreement agreement_of(const World& world);
  int first_number(const World& world) const;

  const LaunchPlan& plan_;
  const std::string store_file_;
  const std::string secret_;
  HostEntry self_;
  int node_rank_ = 0;
  std::optional<HeldPort> standby_port_;
  std::unique_ptr<EndpointWatch> endpoint_watch_;
  std::thread listener_;

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  SocketAddress address_;  // of the store
  std::unique_ptr<StoreServer> server_;
  std::unique_ptr<CoordinatorService> coordinator_;
  std::shared_ptr<StoreClient> client_;
  std::vector<World::Host> hosts_;  // of the newest world, as they are now
  bool runs_ = false;               // ranks run, or are to start
  int restarts_ = 0;
  HostStanding standing_;        // of this host's ranks
  std::optional<World> world_;   // a world that has begun, whose ranks do not start here yet
  std::int64_t generation_ = 0;  // of the newest world that this host is or was in
  std::optional<HostOrder> refusal_;
  std::optional<Outcome> over_;            // of the job
  std::optional<SocketAddress> moved_to_;  // the job is served there
  bool returns_ = false;                   // has told the coordinator that it waits to join again
  bool joins_ = true;                      // true: it is not, or no longer, one of the coordinator's hosts
  std::string server_name_;                // the server's host name, once it is known
  bool stopping_ = false;

  WaitNotice notice_;
  StoreNotifier notifier_;  // declared last, because it uses the others
};

}  // namespace lockstep
