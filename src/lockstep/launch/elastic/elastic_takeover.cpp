// What a launcher does if the host that serves the rendezvous is lost: the next host of the world serves it.
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/launch/elastic/elastic_nodes.h"
#include "lockstep/launch/nodes/job_sign.h"
#include "lockstep/launch/nodes/shared_store.h"
#include "lockstep/net/sockets/socket.h"
#include "lockstep/net/worlds/store_move.h"

namespace lockstep {
namespace {

using std::chrono::seconds;

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

// Keeps a port free for the case that this host is to serve.
void ElasticNodes::hold_standby() {
  const std::string host = client_->own_end();
  if (host.empty()) return;
  standby_port_.emplace();
  self_.standby = SocketAddress::tcp(host, standby_port_->number()).text();
}

bool ElasticNodes::is_ending() const {
  const std::lock_guard lock(mutex_);
  return over_ || stopping_;
}

CoordinatorService* ElasticNodes::own_coordinator() const {
  const std::lock_guard lock(mutex_);
  return coordinator_.get();
}

// @return  false if the job ends
bool ElasticNodes::take_over(const std::string& cause) {
  std::vector<World::Host> hosts;
  Coordinator::Takeover takeover;
  SocketAddress lost;
  bool returns = false;
  {
    const std::lock_guard lock(mutex_);
    const auto is_self = [this](const World::Host& host) { return host.id == self_.id; };
    if (server_ || over_ || stopping_ || std::none_of(hosts_.begin(), hosts_.end(), is_self)) return false;
    hosts = hosts_;
    takeover.generation = generation_;
    takeover.restarts = restarts_;
    takeover.era = standing_.era() + 1;
    lost = address_;
    returns = returns_;
  }
  takeover.story = fmt::format("host {}, which serves the rendezvous, is lost: {}", hosts.front().name, cause);
  const int world_hosts = static_cast<int>(hosts.size());
  takeover.hosts = world_hosts - 1;
  const bool has_ended = has_surely_ended(lost);
  takeover.quorum = Coordinator::Takeover::quorum_of(world_hosts, has_ended);
  // The lost host may continue without this one.
  if (!takeover.is_possible() || (returns && !has_ended)) return false;
  for (std::size_t i = 1; i < hosts.size() && !is_ending(); ++i) {
    const auto client = hosts[i].id == self_.id ? serve_next(takeover) : find_next(hosts[i]);
    if (!client) continue;
    log_warning("{}; host {} serves it from now on, at {}", takeover.story, hosts[i].name, client->address().text());
    resume(client);
    return true;
  }
  return false;
}

std::shared_ptr<StoreClient> ElasticNodes::serve_next(const Coordinator::Takeover& takeover) {
  try {
    auto server = std::make_unique<StoreServer>(SocketAddress::parse(self_.standby), secret_);
    auto coordinator = std::make_unique<CoordinatorService>(*server, secret_, self_, times(), takeover);
    auto client = std::make_shared<StoreClient>(server->address(), secret_, Deadline::after(kTry),
                                                store_client_options(plan_, plan_.keep_alive));
    sign_store(*client, self_);
    endpoint_watch_ = std::make_unique<EndpointWatch>(store_address_of(plan_), secret_, self_, server->address());
    const std::lock_guard lock(mutex_);
    server_ = std::move(server);
    coordinator_ = std::move(coordinator);
    return client;
  } catch (const Error& error) {
    log_warning("this host cannot serve the rendezvous: {}", error.happened());
    return nullptr;
  }
}

std::shared_ptr<StoreClient> ElasticNodes::find_next(const World::Host& host) {
  if (host.standby.empty()) return nullptr;
  StoreClientOptions options = store_client_options(plan_, plan_.keep_alive);
  options.silence_limit = silence_limit();
  for (int i = 0; i < kTriesToFindNext && !is_ending(); ++i) {
    try {
      auto client =
          std::make_shared<StoreClient>(SocketAddress::parse(host.standby), secret_, Deadline::after(kTry), options);
      check_sign(*client, self_);
      return client;
    } catch (const TimeoutError&) {  // it may not serve yet
    } catch (const Error& error) {
      log_warning("host {} does not serve the rendezvous: {}", host.name, error.happened());
      return nullptr;
    }
  }
  return nullptr;
}

// The job's other hosts have another one that serves, which has found this launcher at the endpoint.
void ElasticNodes::move_to(const SocketAddress& address) {
  log_warning("the job runs already, and is served at {}: this host joins it there", address.text());
  client()->finish(Deadline::after(kTry));
  coordinator_.reset();
  server_.reset();
  const Deadline deadline = Deadline::after(plan_.join_timeout);
  StoreClientOptions options = store_client_options(plan_, plan_.keep_alive);
  options.silence_limit = silence_limit();
  auto client = std::make_shared<StoreClient>(address, secret_, deadline, options);
  check_sign(*client, self_);
  {
    const std::lock_guard lock(mutex_);
    client_ = std::move(client);
    address_ = address;
  }
  hold_standby();
}

// The ranks wait for the file. Called under the lock.
void ElasticNodes::continue_here(const HostOrder& order) {
  hosts_ = order.world.hosts;
  restarts_ = order.world.restarts;
  if (!hosts_.empty()) server_name_ = hosts_.front().name;
  standing_.note_era(order.world.era);
  standing_.note_world(order.world);
  StoreMove move;
  move.era = order.world.era;
  move.roll.insert(order.members.begin(), order.members.end());
  move.address = address_.text();
  try {
    write_store_move(store_file_, move);
  } catch (const Error& error) {
    const HostReport failed =
        new_report(HostReport::Kind::Failed, "the ranks cannot be told where the job's store is: " + error.happened());
    notifier_.post([this, failed] { push(failed); });
  }
  log_warning("{}", order.text);
}

// This host's report comes before those that wait to be sent.
void ElasticNodes::resume(const std::shared_ptr<StoreClient>& client) {
  HostReport report;
  report.kind = HostReport::Kind::Resumes;
  report.host = self_.id;
  report.entry = self_;
  {
    const std::lock_guard lock(mutex_);
    report.generation = generation_;
    report.restarts = restarts_;
    report.runs = runs_;
    report.ranks = standing_.now();
  }
  try {
    if (own_coordinator() == nullptr) client->set_will(kReportQueue, lost_report(self_.id), plan_.keep_alive);
    client->push(kReportQueue, to_text(report));
  } catch (const Error&) {
    // The listener notices that this store is lost, too.
  }
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;  // leave_store has ended the waits at the earlier store
    client_ = client;
    address_ = client->address();
    returns_ = false;
  }
  changed_.notify_all();
}

}  // namespace lockstep
