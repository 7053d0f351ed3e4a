#include "lockstep/launch/elastic/elastic_nodes.h"

#include <fmt/format.h>

#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/base/start_thread.h"
#include "lockstep/launch/elastic/agreed_places.h"
#include "lockstep/launch/launcher_name.h"
#include "lockstep/launch/nodes/job_sign.h"
#include "lockstep/launch/nodes/shared_store.h"
#include "lockstep/net/secret.h"
#include "lockstep/net/sockets/signal_mask.h"
#include "lockstep/net/worlds/store_move.h"

namespace lockstep {
namespace {

constexpr std::chrono::milliseconds kToLeave{5000};

}  // namespace

ElasticNodes::ElasticNodes(const LaunchPlan& plan, std::string store_file)
    : plan_(plan),
      store_file_(std::move(store_file)),
      secret_(secret_from_environment()),
      server_side_(plan, secret_, state_),
      reporting_(state_) {
  state_.self = HostEntry::of(plan);
  state_.address = store_address_of(plan);
  server_side_.serve_or_find(notice_);
}

ElasticNodes::~ElasticNodes() {
  leave_store(Deadline::after(kToLeave));
  if (listener_.joinable()) listener_.join();
}

// Becomes one of the coordinator's hosts: the first time, after it was declared
// lost, and where the job has moved.
void ElasticNodes::enter() {
  if (listener_.joinable()) {
    listener_.join();
    state_.self.id = HostEntry::of(plan_).id;
  }
  if (state_.moved_to) server_side_.move_to(*std::exchange(state_.moved_to, std::nullopt));
  {
    const std::lock_guard lock(state_.mutex);
    state_.joins = state_.returns = false;
    state_.generation = 0;
    state_.hosts.clear();
  }
  const std::shared_ptr<StoreClient> client = state_.client_now();
  if (state_.own_coordinator() == nullptr)
    client->set_will(kReportQueue, lost_report(state_.self.id), plan_.keep_alive);
  HostReport report;
  report.host = state_.self.id;
  report.entry = state_.self;
  client->push(kReportQueue, to_text(report));
  const SignalsBlocked blocked;
  listener_ = start_thread("listens to the rendezvous", [this] { listen(); });
}

Agreement ElasticNodes::agree() {
  bool joins = false;
  {
    const std::lock_guard lock(state_.mutex);
    joins = state_.joins;
    state_.runs = false;
  }
  outcome_.reset();
  grants_.take();
  if (joins) {
    enter();
  } else {
    reporting_.report(HostReport::Kind::Ready);
    notice_.begin("waiting until the ranks of the other hosts have ended", Deadline::never());
  }
  const Generation generation = await_generation();
  notice_.end();
  const Agreement agreement = agreement_of(generation, state_.self.id, plan_, store_address());
  node_rank_ = agreement.node_rank;
  return agreement;
}

Generation ElasticNodes::await_generation() {
  std::unique_lock lock(state_.mutex);
  state_.changed.wait(lock, [this] { return state_.begun || state_.refusal || state_.over || state_.joins; });
  if (state_.refusal)
    throw Error(state_.refusal->text, at_launcher("rendezvous at " + state_.address.text()), state_.refusal->fix);
  if (state_.over) {
    throw Error(state_.over->story, at_launcher("rendezvous at " + state_.address.text()),
                "read the output of the other hosts' launchers");
  }
  if (!state_.begun) {  // declared lost while it waited, or sent elsewhere
    lock.unlock();
    outcome_.reset();
    enter();
    return await_generation();
  }
  if (state_.standing.era() > 0) {
    write_store_move(store_file_, {state_.standing.era(), {}, state_.address.text()});
  } else {
    forget_store_moves(store_file_);
  }
  return *std::exchange(state_.begun, std::nullopt);
}

// From here on, and not only once its ranks start, this host is one of the generation: if the serving host is lost in
// between, the next one must know. Called under the lock.
void ElasticNodes::begin(const Generation& generation) {
  state_.begun = generation;
  state_.hosts = generation.hosts;
  state_.runs = true;
  state_.generation = generation.number;
  state_.restarts = generation.restarts;
  state_.server_name = generation.hosts.front().name;
  state_.standing.begin(generation, first_number(generation, state_.self.id), plan_.local_ranks);
}

// Runs in its own thread. Ends when this host is no longer one of the coordinator's hosts.
void ElasticNodes::listen() {
  const std::string queue = order_queue(state_.self.id);
  for (;;) {
    try {
      const std::shared_ptr<StoreClient> client = state_.client_now();
      for (std::int64_t number = 1;; ++number) {
        const std::string key = queue + "/" + std::to_string(number);
        const HostOrder order = parse_order(client->get(key, Deadline::never()));
        client->delete_key(key);
        take(order);
        if (order.kind == HostOrder::Kind::Rejoin || order.kind == HostOrder::Kind::Move) return;
      }
    } catch (const Error& error) {
      if (!server_side_.take_over(error.happened())) return lose_server(error.happened());
    }
  }
}

void ElasticNodes::take(const HostOrder& order) {
  using Kind = HostOrder::Kind;
  std::unique_lock lock(state_.mutex);
  switch (order.kind) {
    case Kind::Wait:
      return notice_.begin(order.text, Deadline::after(order.time_left));
    case Kind::Begin:
      begin(order.generation);
      break;
    case Kind::Probe:
      lock.unlock();
      return reporting_.report(HostReport::Kind::Answers);
    case Kind::Tell:
      return reporting_.answer_locked();
    case Kind::Member:
      state_.standing.take_grant(order.member);
      return grants_.push(order.member >= 0 ? std::optional<int>(order.member) : std::nullopt);
    case Kind::Continue:
      return continue_here(order);
    case Kind::Note:
      state_.hosts = order.generation.hosts;
      state_.standing.note_generation(order.generation);
      return log_warning("{}", order.text);
    case Kind::Stop:
      if (state_.runs)
        outcome_.publish({false, false, order.has_time, order.text});  // otherwise they have ended already
      return;
    case Kind::Return:
      state_.returns = true;
      lock.unlock();
      return reporting_.report(HostReport::Kind::Returns);
    case Kind::Rejoin:
      state_.joins = true;
      state_.begun.reset();
      outcome_.publish({false, false, false, order.text + "; this host joins again", true});
      break;
    case Kind::Move:
      state_.joins = true;
      state_.moved_to = SocketAddress::parse(order.text);
      break;
    case Kind::Refuse:
      state_.refusal = order;
      break;
    case Kind::End:
      state_.over = Outcome{order.success, true, false, order.text, order.runs_elsewhere};
      outcome_.publish(*state_.over);
      break;
  }
  state_.changed.notify_all();
}

// The ranks wait for the file. Called under the lock.
void ElasticNodes::continue_here(const HostOrder& order) {
  state_.hosts = order.generation.hosts;
  state_.restarts = order.generation.restarts;
  if (!state_.hosts.empty()) state_.server_name = state_.hosts.front().name;
  state_.standing.note_era(order.generation.era);
  state_.standing.note_generation(order.generation);
  StoreMove move;
  move.era = order.generation.era;
  move.roll.insert(order.members.begin(), order.members.end());
  move.address = state_.address.text();
  try {
    write_store_move(store_file_, move);
  } catch (const Error& error) {
    reporting_.report_locked(HostReport::Kind::Failed,
                             "the ranks cannot be told where the job's store is: " + error.happened());
  }
  log_warning("{}", order.text);
}

void ElasticNodes::lose_server(const std::string& cause) {
  const std::lock_guard lock(state_.mutex);
  if (state_.over || state_.stopping) return;
  const std::string name = state_.server_name.empty() ? "the host" : "host " + state_.server_name;
  state_.over =
      Outcome{false, true, false, fmt::format("{}, which serves the rendezvous, is lost: {}", name, cause), true};
  outcome_.publish(*state_.over);
  state_.changed.notify_all();
}

std::string ElasticNodes::store_address() const {
  const std::lock_guard lock(state_.mutex);
  return state_.address.text();
}

// It has left the ranks of an earlier store in order, which the present one does not know.
void ElasticNodes::note_success(int member) { reporting_.report_gone(member, "it has finished"); }

// The job continues without this host, unless this host serves the store.
void ElasticNodes::report_leaving(const std::string& why) {
  reporting_.report(HostReport::Kind::Leaves, why);
  outcome_.publish({false, true, false, why});
}

void ElasticNodes::leave() {
  const Deadline deadline = Deadline::after(kToLeave);
  reporting_.report(HostReport::Kind::Leaves, "its launcher has ended");
  if (CoordinatorService* const coordinator = state_.own_coordinator()) coordinator->wait_until_left(deadline);
  leave_store(deadline);
}

// Ends the waits of all threads, even if the server does not answer.
void ElasticNodes::leave_store(Deadline deadline) {
  notice_.end();
  {
    const std::lock_guard lock(state_.mutex);
    state_.stopping = true;
  }
  state_.changed.notify_all();
  reporting_.finish(deadline);
  state_.client_now()->finish(deadline);
}

void ElasticNodes::abort_leave() {
  if (CoordinatorService* const coordinator = state_.own_coordinator()) coordinator->stop_waiting();
  leave_store(Deadline::after(std::chrono::milliseconds(0)));
}

}  // namespace lockstep
