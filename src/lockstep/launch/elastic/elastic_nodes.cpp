#include "lockstep/launch/elastic/elastic_nodes.h"

#include <fmt/format.h>

#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/base/start_thread.h"
#include "lockstep/launch/launcher_name.h"
#include "lockstep/launch/nodes/job_sign.h"
#include "lockstep/launch/nodes/shared_store.h"
#include "lockstep/net/secret.h"
#include "lockstep/net/sockets/signal_mask.h"

namespace lockstep {
namespace {

constexpr std::chrono::milliseconds kFarewellTimeout{5000};
// How much longer a host tolerates silence of the serving host than the other way round. If their link was down for a
// while, the host learns that it was declared lost, and joins again, before it gives up itself.
constexpr std::chrono::seconds kTimeToBeTakenBack{2};
constexpr std::size_t kLongestReportBytes = 16UL * 1024;

Coordinator::Rules rules_of(const LaunchPlan& plan) {
  Coordinator::Rules rules;
  rules.join_timeout = plan.join_timeout;
  rules.last_call = plan.last_call;
  return rules;
}

}  // namespace

ElasticNodes::ElasticNodes(const LaunchPlan& plan)
    : plan_(plan), address_(store_address_of(plan)), secret_(secret_from_environment()), self_(HostEntry::of(plan)) {
  serve_or_find();
}

ElasticNodes::~ElasticNodes() {
  say_goodbye(Deadline::after(kFarewellTimeout));
  if (listener_.joinable()) listener_.join();
}

void ElasticNodes::serve_or_find() {
  std::string refusal;
  if (plan_.serves_store.value_or(true)) {
    try {
      server_ = plan_.serves_store ? serve_job(address_, secret_) : std::make_unique<StoreServer>(address_, secret_);
    } catch (const Error& error) {
      if (plan_.serves_store.has_value()) throw;
      refusal = error.happened();
    }
  }
  if (server_) coordinator_ = std::make_unique<CoordinatorService>(*server_, secret_, self_, rules_of(plan_));
  const Deadline deadline = Deadline::after(plan_.join_timeout);
  notice_.begin("waiting for the launcher that serves the rendezvous at " + address_.text(), deadline);
  try {
    StoreClientOptions options = store_client_options(plan_, plan_.keep_alive);
    if (!server_) options.silence_limit = plan_.keep_alive + kTimeToBeTakenBack;
    client_ = std::make_unique<StoreClient>(address_, secret_, deadline, options);
  } catch (const TimeoutError& error) {
    const std::string also = refusal.empty() ? "" : "; and this host could not serve it: " + refusal;
    throw TimeoutError(error.happened() + also, error.where(), error.fix());
  }
  notice_.end();
  if (server_) {
    sign_store(*client_, self_);
  } else {
    check_sign(*client_, self_);
  }
}

// Becomes one of the coordinator's hosts: the first time, and after it was declared lost.
void ElasticNodes::enter() {
  if (listener_.joinable()) {
    listener_.join();
    self_.id = HostEntry::of(plan_).id;
  }
  {
    const std::lock_guard lock(mutex_);
    joins_ = false;
    generation_ = 0;
  }
  if (!server_) client_->set_will(kReportQueue, lost_report(self_.id), plan_.keep_alive);
  HostReport report;
  report.host = self_.id;
  report.entry = self_;
  client_->push(kReportQueue, to_text(report));
  const SignalsBlocked blocked;
  listener_ = start_thread("hears the rendezvous", [this] { listen(); });
}

Agreement ElasticNodes::agree() {
  bool joins = false;
  {
    const std::lock_guard lock(mutex_);
    joins = joins_;
  }
  outcome_.reset();
  grants_.take();
  if (joins) {
    enter();
  } else {
    report(HostReport::Kind::Ready);
    notice_.begin("waiting until the ranks of the other hosts have ended", Deadline::never());
  }
  const World world = await_world();
  notice_.end();
  return agreement_of(world);
}

World ElasticNodes::await_world() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return world_ || refusal_ || over_ || joins_; });
  if (refusal_) throw Error(refusal_->text, at_launcher("rendezvous at " + address_.text()), refusal_->fix);
  if (over_) {
    throw Error(over_->story, at_launcher("rendezvous at " + address_.text()),
                "see what the launchers of the other hosts say");
  }
  if (!world_) {  // declared lost while it waited
    lock.unlock();
    enter();
    return await_world();
  }
  World world = *std::exchange(world_, std::nullopt);
  generation_ = world.generation;
  server_name_ = world.hosts.front().name;
  return world;
}

Agreement ElasticNodes::agreement_of(const World& world) {
  Agreement agreement;
  agreement.generation = world.generation - 1;
  agreement.restarts = world.restarts;
  agreement.nodes = static_cast<int>(world.hosts.size());
  agreement.master_port = world.master_port;
  agreement.world_size = 0;
  std::string names;
  for (std::size_t node = 0; node < world.hosts.size(); ++node) {
    if (world.hosts[node].id == self_.id) {
      agreement.node_rank = static_cast<int>(node);
      agreement.first_rank = agreement.world_size;
    }
    agreement.world_size += world.hosts[node].local_ranks;
    names += (node == 0 ? "" : ", ") + world.hosts[node].name;
  }
  node_rank_ = agreement.node_rank;
  if (world.first_member >= 0) {
    agreement.first_member = agreement.first_rank = world.first_member;
    agreement.world_size = world.first_member + plan_.local_ranks;
    log_warning("this host joins the running ranks of {} ({}) under the numbers from {} on",
                agreement.nodes == 2 ? "another host" : "the other hosts", names, world.first_member);
    return agreement;
  }
  const std::string text =
      fmt::format("the ranks start: {} on {} host{} ({}), restarts so far: {} of {}", agreement.world_size,
                  agreement.nodes, agreement.nodes == 1 ? "" : "s", names, agreement.restarts, plan_.max_restarts);
  if (agreement.generation == 0) {
    log_info("{}", text);
  } else {
    log_warning("{}", text);
  }
  return agreement;
}

// Runs in its own thread. Ends when this host is no longer one of the coordinator's hosts.
void ElasticNodes::listen() {
  const std::string queue = order_queue(self_.id);
  try {
    for (std::int64_t number = 1;; ++number) {
      const std::string key = queue + "/" + std::to_string(number);
      const HostOrder order = parse_order(client_->get(key, Deadline::never()));
      client_->delete_key(key);
      take(order);
      if (order.kind == HostOrder::Kind::Rejoin) return;
    }
  } catch (const Error& error) {
    lose_server(error.happened());
  }
}

void ElasticNodes::take(const HostOrder& order) {
  using Kind = HostOrder::Kind;
  std::unique_lock lock(mutex_);
  switch (order.kind) {
    case Kind::Wait:
      return notice_.begin(order.text, Deadline::after(order.time_left));
    case Kind::Begin:
      world_ = order.world;
      break;
    case Kind::Probe:
      lock.unlock();
      return report(HostReport::Kind::Answers);
    case Kind::Member:
      return grants_.push(order.member >= 0 ? std::optional<int>(order.member) : std::nullopt);
    case Kind::Note:
      return log_warning("{}", order.text);
    case Kind::Stop:
      outcome_.publish({false, false, order.has_time, order.text});
      return;
    case Kind::Rejoin:
      joins_ = true;
      world_.reset();
      outcome_.publish({false, false, false, order.text + "; this host joins again"});
      break;
    case Kind::Refuse:
      refusal_ = order;
      break;
    case Kind::End:
      over_ = Outcome{order.success, true, false, order.text};
      outcome_.publish(*over_);
      break;
  }
  changed_.notify_all();
}

void ElasticNodes::lose_server(const std::string& cause) {
  const std::lock_guard lock(mutex_);
  if (over_ || stopping_) return;
  const std::string name = server_name_.empty() ? "the host" : "host " + server_name_;
  over_ = Outcome{false, true, false, fmt::format("{}, which serves the rendezvous, is lost: {}", name, cause)};
  outcome_.publish(*over_);
  changed_.notify_all();
}

void ElasticNodes::report(HostReport::Kind kind, const std::string& text, bool blames_a_peer) {
  HostReport report;
  report.kind = kind;
  report.host = self_.id;
  report.text = text.substr(0, kLongestReportBytes);
  report.blames_a_peer = blames_a_peer;
  {
    const std::lock_guard lock(mutex_);
    report.generation = world_ ? world_->generation : generation_;
  }
  notifier_.post([this, report] {
    try {
      client_->push(kReportQueue, to_text(report));
    } catch (const Error& error) {
      lose_server(error.happened());
    }
  });
}

void ElasticNodes::mark_lost(int rank, const std::string& cause) {
  if (!server_) return;
  const std::lock_guard lock(mutex_);
  server_->mark_lost(generation_ - 1, LostRank{rank, host_name(), cause});
}

void ElasticNodes::report_failure(const std::string& story, bool blames_a_peer) {
  report(HostReport::Kind::Failed, story, blames_a_peer);
}

// The job continues without this host, unless this host serves the store.
void ElasticNodes::report_leaving(const std::string& why) {
  report(HostReport::Kind::Leaves, why);
  outcome_.publish({false, true, false, why});
}

void ElasticNodes::report_success() { report(HostReport::Kind::Succeeded); }

void ElasticNodes::leave() {
  const Deadline deadline = Deadline::after(kFarewellTimeout);
  report(HostReport::Kind::Leaves, "its launcher has ended");
  if (coordinator_) coordinator_->wait_until_left(deadline);
  say_goodbye(deadline);
}

// Ends the waits of all threads, even if the server does not answer.
void ElasticNodes::say_goodbye(Deadline deadline) {
  notice_.end();
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  notifier_.wait_until_done(deadline);
  client_->finish(deadline);
}

void ElasticNodes::abort_leave() {
  if (coordinator_) coordinator_->stop_waiting();
  say_goodbye(Deadline::after(std::chrono::milliseconds(0)));
}

}  // namespace lockstep
