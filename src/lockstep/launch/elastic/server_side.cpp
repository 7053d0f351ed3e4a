#include "lockstep/launch/elastic/server_side.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/launch/nodes/job_sign.h"
#include "lockstep/launch/nodes/shared_store.h"
#include "lockstep/net/sockets/socket.h"
#include "lockstep/net/worlds/store_move.h"

namespace lockstep {
namespace {

using std::chrono::seconds;

// How much longer a host tolerates silence of the serving host than the other way round. If their link
// was down for a while, the host learns that it was declared lost, and joins again, before it gives up itself.
constexpr seconds kTimeToBeTakenBack{2};
constexpr seconds kToLookAtTheLost{2};
constexpr std::chrono::milliseconds kBetweenLooksAtTheLost{10};
// The next host notices the loss by itself. If it has not by then, it is lost, too.
constexpr int kTriesToFindNext = 10;
constexpr seconds kTry{1};

// Until the connection ends, for at most the time between two looks: a connection that is reset while it is made has no
// end to wait for.
void await_end(const UniqueFd& connection) {
  pollfd end{connection.get(), POLLRDHUP, 0};
  ::poll(&end, 1, static_cast<int>(kBetweenLooksAtTheLost.count()));
}

// Then no process serves there any more. A host that does not answer may live, behind a link that is down. The kernel
// closes what a killed process held one by one, so for a moment its connections are closed while it still listens. What
// connects to it then ends with the socket that listens.
bool has_surely_ended(const SocketAddress& address) {
  const Deadline deadline = Deadline::after(kToLookAtTheLost);
  for (;;) {
    try {
      const Connected connected = connect_once(address, false, deadline);
      if (connected.refused) return true;
      if (deadline.passed()) return false;
      await_end(connected.fd);
    } catch (const Error&) {
      return false;
    }
  }
}

}  // namespace

Coordinator::Times ServerSide::times() const {
  Coordinator::Times times;
  times.join_timeout = plan_.join_timeout;
  times.last_call = plan_.last_call;
  times.keep_alive = plan_.keep_alive;
  return times;
}

StoreClientOptions ServerSide::client_options(bool other) const {
  StoreClientOptions options = store_client_options(plan_, plan_.keep_alive);
  if (other) options.silence_limit = plan_.keep_alive + kTimeToBeTakenBack;
  return options;
}

void ServerSide::serve_or_find(WaitNotice& notice) {
  std::string refusal;
  if (plan_.serves_store.value_or(true)) {
    try {
      state_.server = plan_.serves_store ? serve_job(state_.address, secret_)
                                         : std::make_unique<StoreServer>(state_.address, secret_);
    } catch (const Error& error) {
      if (plan_.serves_store.has_value()) throw;
      refusal = error.happened();
    }
  }
  if (state_.server)
    state_.coordinator = std::make_unique<CoordinatorService>(*state_.server, secret_, state_.self, times());
  const Deadline deadline = Deadline::after(plan_.join_timeout);
  notice.begin("waiting for the launcher that serves the rendezvous at " + state_.address.text(), deadline);
  try {
    state_.client =
        std::make_shared<StoreClient>(state_.address, secret_, deadline, client_options(state_.server == nullptr));
  } catch (const TimeoutError& error) {
    const std::string also = refusal.empty() ? "" : "; and this host could not serve it: " + refusal;
    throw TimeoutError(error.happened() + also, error.where(), error.fix());
  }
  notice.end();
  if (state_.server) {
    sign_store(*state_.client, state_.self);
  } else {
    check_sign(*state_.client, state_.self);
    hold_standby();
  }
}

// Keeps a port free for the case that this host is to serve.
void ServerSide::hold_standby() {
  const std::string host = state_.client->own_end();
  if (host.empty()) return;
  standby_port_.emplace();
  state_.self.standby = SocketAddress::tcp(host, standby_port_->number()).text();
}

bool ServerSide::take_over(const std::string& cause) {
  std::vector<Generation::Host> hosts;
  Coordinator::Takeover takeover;
  SocketAddress lost;
  bool returns = false;
  {
    const std::lock_guard lock(state_.mutex);
    const auto is_self = [this](const Generation::Host& host) { return host.id == state_.self.id; };
    if (state_.server || state_.over || state_.stopping ||
        std::none_of(state_.hosts.begin(), state_.hosts.end(), is_self))
      return false;
    hosts = state_.hosts;
    takeover.generation = state_.generation;
    takeover.restarts = state_.restarts;
    takeover.era = state_.standing.era() + 1;
    lost = state_.address;
    returns = state_.returns;
  }
  takeover.story = fmt::format("host {}, which serves the rendezvous, is lost: {}", hosts.front().name, cause);
  const int world_hosts = static_cast<int>(hosts.size());
  takeover.hosts = world_hosts - 1;
  const bool has_ended = has_surely_ended(lost);
  takeover.quorum = Coordinator::Takeover::quorum_of(world_hosts, has_ended);
  // The lost host may continue without this one.
  if (!takeover.is_possible() || (returns && !has_ended)) return false;
  for (std::size_t i = 1; i < hosts.size() && !state_.is_ending(); ++i) {
    const auto client = hosts[i].id == state_.self.id ? serve_next(takeover) : find_next(hosts[i]);
    if (!client) continue;
    log_warning("{}; host {} serves it from now on, at {}", takeover.story, hosts[i].name, client->address().text());
    resume(client);
    return true;
  }
  return false;
}

std::shared_ptr<StoreClient> ServerSide::serve_next(const Coordinator::Takeover& takeover) {
  try {
    auto server = std::make_unique<StoreServer>(SocketAddress::parse(state_.self.standby), secret_);
    auto coordinator = std::make_unique<CoordinatorService>(*server, secret_, state_.self, times(), takeover);
    auto client =
        std::make_shared<StoreClient>(server->address(), secret_, Deadline::after(kTry), client_options(false));
    sign_store(*client, state_.self);
    endpoint_watch_ = std::make_unique<EndpointWatch>(store_address_of(plan_), secret_, state_.self, server->address());
    const std::lock_guard lock(state_.mutex);
    state_.server = std::move(server);
    state_.coordinator = std::move(coordinator);
    return client;
  } catch (const Error& error) {
    log_warning("this host cannot serve the rendezvous: {}", error.happened());
    return nullptr;
  }
}

std::shared_ptr<StoreClient> ServerSide::find_next(const Generation::Host& host) {
  if (host.standby.empty()) return nullptr;
  for (int i = 0; i < kTriesToFindNext && !state_.is_ending(); ++i) {
    try {
      auto client = std::make_shared<StoreClient>(SocketAddress::parse(host.standby), secret_, Deadline::after(kTry),
                                                  client_options(true));
      check_sign(*client, state_.self);
      return client;
    } catch (const TimeoutError&) {  // it may not serve yet
    } catch (const Error& error) {
      log_warning("host {} does not serve the rendezvous: {}", host.name, error.happened());
      return nullptr;
    }
  }
  return nullptr;
}

void ServerSide::move_to(const SocketAddress& address) {
  log_warning("the job runs already, and is served at {}: this host joins it there", address.text());
  state_.client_now()->finish(Deadline::after(kTry));
  state_.coordinator.reset();
  state_.server.reset();
  const Deadline deadline = Deadline::after(plan_.join_timeout);
  auto client = std::make_shared<StoreClient>(address, secret_, deadline, client_options(true));
  check_sign(*client, state_.self);
  {
    const std::lock_guard lock(state_.mutex);
    state_.client = std::move(client);
    state_.address = address;
  }
  hold_standby();
}

// This host's report comes before those that wait to be sent.
void ServerSide::resume(const std::shared_ptr<StoreClient>& client) {
  HostReport report;
  report.kind = HostReport::Kind::Resumes;
  report.host = state_.self.id;
  report.entry = state_.self;
  {
    const std::lock_guard lock(state_.mutex);
    report.generation = state_.generation;
    report.restarts = state_.restarts;
    report.runs = state_.runs;
    report.ranks = state_.standing.now();
  }
  try {
    if (state_.own_coordinator() == nullptr)
      client->set_will(kReportQueue, lost_report(state_.self.id), plan_.keep_alive);
    client->push(kReportQueue, to_text(report));
  } catch (const Error&) {
    // The listener notices that this store is lost, too.
  }
  {
    const std::lock_guard lock(state_.mutex);
    if (state_.stopping) return;  // leave_store has ended the waits at the earlier store
    state_.client = client;
    state_.address = client->address();
    state_.returns = false;
  }
  state_.changed.notify_all();
}

}  // namespace lockstep
