#include "lockstep/launch/nodes/node_group.h"

#include <algorithm>
#include <optional>

#include "lockstep/base/processor/topology.h"
#include "lockstep/launch/elastic/elastic_nodes.h"
#include "lockstep/launch/launcher_name.h"
#include "lockstep/launch/nodes/free_port.h"
#include "lockstep/launch/nodes/static_nodes.h"
#include "lockstep/net/secret.h"
#include "lockstep/net/server/store_server.h"

namespace lockstep {
namespace {

constexpr std::chrono::milliseconds kLeastLookInterval{1000};
constexpr std::chrono::milliseconds kMostLookInterval{3000};

// A job on this node only: no other launcher to agree with.
class OneNode : public NodeGroup {
 public:
  OneNode(const LaunchPlan& plan, const std::string& socket)
      : plan_(plan), secret_(own_secret()), server_(SocketAddress::unix_socket(socket), secret_) {}

  std::string store_address() const override { return server_.address().text(); }
  const std::string& secret() const override { return secret_; }
  int node_rank() const override { return 0; }

  Agreement agree() override {
    if (outcome_.get()) ++attempt_;
    outcome_.reset();
    server_.forget_generations_before(attempt_);
    Agreement agreement;
    agreement.generation = agreement.restarts = attempt_;
    agreement.world_size = plan_.local_ranks;
    if (plan_.master_port == 0) port_.emplace();  // a new port: a process of the last attempt may still use the old one
    agreement.master_port = port_ ? port_->number() : plan_.master_port;
    return agreement;
  }
  void mark_lost(int rank, const std::string& cause) override {
    server_.mark_lost(attempt_, LostRank{rank, host_name(), cause});
  }
  void report_failure(const std::string& story, bool /*blames_a_peer*/) override {
    outcome_.publish(Outcome::of_failure(story, attempt_, plan_.max_restarts));
  }
  void report_leaving(const std::string& why) override { outcome_.publish({false, true, false, why}); }
  void report_success() override { outcome_.publish({true, true, false, ""}); }
  void leave() override {}
  void abort_leave() override {}

 private:
  static std::string own_secret() {
    const std::string given = secret_from_environment();
    return given.empty() ? make_secret() : given;
  }

  const LaunchPlan& plan_;
  const std::string secret_;
  StoreServer server_;
  std::optional<HeldPort> port_;  // of this attempt
  int attempt_ = 0;
};

}  // namespace

StoreClientOptions store_client_options(const LaunchPlan& plan, std::chrono::milliseconds silence) {
  StoreClientOptions options;
  options.where = at_launcher("rendezvous");
  options.heartbeat_interval =
      std::min(std::clamp(plan.monitor_interval, kLeastLookInterval, kMostLookInterval), silence / 3);
  return options;
}

SocketAddress store_address_of(const LaunchPlan& plan) {
  const std::string& host = plan.master_addr;
  const bool in_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  return SocketAddress::tcp(in_brackets ? host.substr(1, host.size() - 2) : host, plan.master_port);
}

std::unique_ptr<NodeGroup> make_node_group(const LaunchPlan& plan, const std::string& socket) {
  if (plan.nodes == 1) return std::make_unique<OneNode>(plan, socket);
  if (plan.node_ranks == NodeRanks::Given) return std::make_unique<StaticNodes>(plan);
  return std::make_unique<ElasticNodes>(plan);
}

}  // namespace lockstep
