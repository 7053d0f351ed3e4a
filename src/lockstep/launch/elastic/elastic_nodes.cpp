#include "lockstep/launch/elastic/elastic_nodes.h"

#include <fmt/format.h>

#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/base/start_thread.h"
#include "lockstep/launch/launcher_name.h"
#include "lockstep/launch/nodes/job_sign.h"
#include "lockstep/launch/nodes/shared_store.h"
#include "lockstep/net/secret.h"
#include "lockstep/net/sockets/signal_mask.h"
#include "lockstep/net/worlds/store_move.h"

namespace lockstep {
namespace {

constexpr std::chrono::milliseconds kToLeave{5000};
// How much longer a host tolerates silence of the serving host than the other
// way round. If their link was down for a while, the host learns that it was
// declared lost, and joins again, before it gives up itself.
constexpr std::chrono::seconds kTimeToBeTakenBack{2};

}  // namespace

ElasticNodes::ElasticNodes(const LaunchPlan& plan, std::string store_file)
    : plan_(plan),
      store_file_(std::move(store_file)),
      secret_(secret_from_environment()),
      self_(HostEntry::of(plan)),
      address_(store_address_of(plan)) {
  serve_or_find();
}

ElasticNodes::~ElasticNodes() {
  leave_store(Deadline::after(kToLeave));
  if (listener_.joinable()) listener_.join();
}

Coordinator::Times ElasticNodes::times() const {
  Coordinator::Times times;
  times.join_timeout = plan_.join_timeout;
  times.last_call = plan_.last_call;
  times.keep_alive = plan_.keep_alive;
  return times;
}

std::chrono::milliseconds ElasticNodes::silence_limit() const { return plan_.keep_alive + kTimeToBeTakenBack; }

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
  if (server_) coordinator_ = std::make_unique<CoordinatorService>(*server_, secret_, self_, times());
  const Deadline deadline = Deadline::after(plan_.join_timeout);
  notice_.begin("waiting for the launcher that serves the rendezvous at " + address_.text(), deadline);
  try {
    StoreClientOptions options = store_client_options(plan_, plan_.keep_alive);
    if (!server_) options.silence_limit = silence_limit();
    client_ = std::make_shared<StoreClient>(address_, secret_, deadline, options);
  } catch (const TimeoutError& error) {
    const std::string also = refusal.empty() ? "" : "; and this host could not serve it: " + refusal;
    throw TimeoutError(error.happened() + also, error.where(), error.fix());
  }
  notice_.end();
  if (server_) {
    sign_store(*client_, self_);
  } else {
    check_sign(*client_, self_);
    hold_standby();
  }
}

// The number of this host's first process.
int ElasticNodes::first_number(const World& world) const {
  int first = 0;
  for (const World::Host& host : world.hosts) {
    if (host.id == self_.id) break;
    first += host.local_ranks;
  }
  return world.first_member >= 0 ? world.first_member : first;
}

// Becomes one of the coordinator's hosts: the first time, after it was declared
// lost, and where the job has moved.
void ElasticNodes::enter() {
  if (listener_.joinable()) {
    listener_.join();
    self_.id = HostEntry::of(plan_).id;
  }
  if (moved_to_) move_to(*std::exchange(moved_to_, std::nullopt));
  {
    const std::lock_guard lock(mutex_);
    joins_ = returns_ = false;
    generation_ = 0;
    hosts_.clear();
  }
  const std::shared_ptr<StoreClient> client = this->client();
  if (own_coordinator() == nullptr) client->set_will(kReportQueue, lost_report(self_.id), plan_.keep_alive);
  HostReport report;
  report.host = self_.id;
  report.entry = self_;
  client->push(kReportQueue, to_text(report));
  const SignalsBlocked blocked;
  listener_ = start_thread("listens to the rendezvous", [this] { listen(); });
}

Agreement ElasticNodes::agree() {
  bool joins = false;
  {
    const std::lock_guard lock(mutex_);
    joins = joins_;
    runs_ = false;
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
  if (!world_) {  // declared lost while it waited, or sent elsewhere
    lock.unlock();
    outcome_.reset();
    enter();
    return await_world();
  }
  if (standing_.era() > 0) {
    write_store_move(store_file_, {standing_.era(), {}, address_.text()});
  } else {
    forget_store_moves(store_file_);
  }
  return *std::exchange(world_, std::nullopt);
}

// From here on, and not only once its ranks start, this host is one of the world: if the serving host is lost in
// between, the next one must know. Called under the lock.
void ElasticNodes::begin(const World& world) {
  world_ = world;
  hosts_ = world.hosts;
  runs_ = true;
  generation_ = world.generation;
  restarts_ = world.restarts;
  server_name_ = world.hosts.front().name;
  standing_.begin(world, first_number(world), plan_.local_ranks);
}

Agreement ElasticNodes::agreement_of(const World& world) {
  Agreement agreement;
  agreement.generation = world.generation - 1;
  agreement.restarts = world.restarts;
  agreement.nodes = static_cast<int>(world.hosts.size());
  agreement.master_port = world.master_port;
  if (const SocketAddress now = SocketAddress::parse(store_address()); now.host != store_address_of(plan_).host) {
    agreement.master_addr = now.host;
  }
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
  for (;;) {
    try {
      const std::shared_ptr<StoreClient> client = this->client();
      for (std::int64_t number = 1;; ++number) {
        const std::string key = queue + "/" + std::to_string(number);
        const HostOrder order = parse_order(client->get(key, Deadline::never()));
        client->delete_key(key);
        take(order);
        if (order.kind == HostOrder::Kind::Rejoin || order.kind == HostOrder::Kind::Move) return;
      }
    } catch (const Error& error) {
      if (!take_over(error.happened())) return lose_server(error.happened());
    }
  }
}

void ElasticNodes::take(const HostOrder& order) {
  using Kind = HostOrder::Kind;
  std::unique_lock lock(mutex_);
  switch (order.kind) {
    case Kind::Wait:
      return notice_.begin(order.text, Deadline::after(order.time_left));
    case Kind::Begin:
      begin(order.world);
      break;
    case Kind::Probe:
      lock.unlock();
      return report(HostReport::Kind::Answers);
    case Kind::Tell: {
      HostReport answer = new_report(HostReport::Kind::Answers, {});
      answer.ranks = standing_.now();
      return notifier_.post([this, answer] { push(answer); });
    }
    case Kind::Member:
      standing_.take_grant(order.member);
      return grants_.push(order.member >= 0 ? std::optional<int>(order.member) : std::nullopt);
    case Kind::Continue:
      return continue_here(order);
    case Kind::Note:
      hosts_ = order.world.hosts;
      standing_.note_world(order.world);
      return log_warning("{}", order.text);
    case Kind::Stop:
      if (runs_) outcome_.publish({false, false, order.has_time, order.text});  // otherwise they have ended already
      return;
    case Kind::Return:
      returns_ = true;
      lock.unlock();
      return report(HostReport::Kind::Returns);
    case Kind::Rejoin:
      joins_ = true;
      world_.reset();
      outcome_.publish({false, false, false, order.text + "; this host joins again", true});
      break;
    case Kind::Move:
      joins_ = true;
      moved_to_ = SocketAddress::parse(order.text);
      break;
    case Kind::Refuse:
      refusal_ = order;
      break;
    case Kind::End:
      over_ = Outcome{order.success, true, false, order.text, order.runs_elsewhere};
      outcome_.publish(*over_);
      break;
  }
  changed_.notify_all();
}

}  // namespace lockstep
