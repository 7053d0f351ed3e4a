#include "lockstep/launch/nodes/static_nodes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/base/start_thread.h"
#include "lockstep/launch/launcher_name.h"
#include "lockstep/launch/launcher_words.h"
#include "lockstep/launch/nodes/job_sign.h"
#include "lockstep/launch/nodes/shared_store.h"
#include "lockstep/net/secret.h"
#include "lockstep/net/sockets/signal_mask.h"
#include "lockstep/net/store_errors.h"

namespace lockstep {
namespace {

constexpr std::chrono::seconds kAgreeTimeout{60};
constexpr std::chrono::milliseconds kLeaveTimeout{5000};
constexpr std::chrono::milliseconds kLeaveTimeoutWithoutOne{500};  // the others get the outcome at once
constexpr std::size_t kMostMissing = 16;
constexpr int kMostRanksOfNode = 1 << 20;
constexpr int kMostPorts = 65535;

// The server ends by itself if it has a reason, which it reports.
Error server_gone(const StoreLostError& error, const std::string& when) {
  return Error(fmt::format("the launcher of node 0, which serves the job's store, has ended or is out of reach {}: {}",
                           when, error.happened()),
               error.where(), "see what that launcher says");
}

// The queue for launchers that ended while others were still awaited: their ids, each with the cause.
std::string gone_queue(int node) { return "launcher/gone/" + std::to_string(node); }
std::string first_in(const std::string& queue) { return queue + "/1"; }
std::string node_key(int node) { return "launcher/node/" + std::to_string(node); }

}  // namespace

StaticNodes::StaticNodes(const LaunchPlan& plan)
    : plan_(plan),
      address_(store_address_of(plan)),
      secret_(secret_from_environment()),
      self_(HostEntry::of(plan)),
      node_rank_(plan.node_rank) {
  self_.rest.clear();  // a node with its own number may have its own arguments
  if (plan.serves_store.value_or(node_rank_ == 0)) server_ = serve_job(address_, secret_);
  connect();
  try {
    enroll();
  } catch (const StoreLostError& error) {
    throw server_gone(error, "while the nodes joined");
  }
}

StaticNodes::~StaticNodes() {
  client_->finish(Deadline::after(kLeaveTimeout));  // ends the watcher's wait
  if (watcher_.joinable()) watcher_.join();
}

void StaticNodes::connect() {
  const Deadline deadline = Deadline::after(plan_.join_timeout);
  StoreClientOptions options = store_client_options(plan_, plan_.keep_alive);
  if (!server_) options.silence_limit = plan_.keep_alive;
  notice_.begin("waiting for the launcher of node 0, which is to serve at " + address_.text(), deadline);
  client_ = std::make_unique<StoreClient>(address_, secret_, deadline, options);
  notice_.end();
  if (server_) {
    sign_store(*client_, self_);
  } else {
    check_sign(*client_, self_);
  }
}

// The text that the others read in that queue if this launcher is lost from now on.
void StaticNodes::set_last_will(const std::string& queue) {
  if (server_) return;  // if this launcher is lost, so is the store
  client_->set_will(
      queue, fmt::format("{}the launcher of node {} on {} is lost: ", kLostLauncherMark, node_rank_, self_.label()),
      plan_.keep_alive);
}

// A launcher that ended before all nodes had joined may be started again.
void StaticNodes::claim_rank() {
  const std::string own = nlohmann::json(self_).dump();
  const std::string gone = gone_queue(node_rank_);
  std::string stands = client_->compare_set(node_key(node_rank_), "", own);
  if (stands != own && !has_begun() && last_in(gone) == parse_host_entry(stands).id) {
    stands = client_->compare_set(node_key(node_rank_), stands, own);
  }
  if (stands != own) {
    throw Error(fmt::format("two launchers claim node rank {}: this one, and that on {}", node_rank_,
                            parse_host_entry(stands).label()),
                at_launcher("rendezvous"),
                "give each node its own --node-rank, from 0 to nnodes-1, and each job an endpoint of its own");
  }
  if (!server_) client_->set_will(gone, self_.id + " ", plan_.keep_alive);
}

bool StaticNodes::has_begun() { return client_->try_get(key(0, "ready/" + std::to_string(node_rank_))).has_value(); }

// The first word of the newest text in that queue; empty if the queue is empty.
std::string StaticNodes::last_in(const std::string& queue) {
  const auto count = client_->try_get(queue);
  const std::string text = count ? client_->try_get(queue + "/" + *count).value_or("") : "";
  return text.substr(0, text.find(' '));
}

void StaticNodes::enroll() {
  claim_rank();
  const Deadline deadline = Deadline::after(plan_.join_timeout);
  for (int node = 0; node < plan_.nodes; ++node) {
    notice_.begin([this, node] { return "waiting for " + missing_nodes(node); }, deadline);
    HostEntry peer;
    try {
      peer = parse_host_entry(client_->get(node_key(node), deadline));
    } catch (const TimeoutError&) {
      throw TimeoutError(
          fmt::format("{} did not join within {} s", missing_nodes(node),
                      std::chrono::duration<double>(plan_.join_timeout).count()),
          at_launcher("rendezvous at " + address_.text()),
          "start it with the same --master-addr and --master-port, or raise --rdzv-conf timeout=SECONDS");
    }
    if (const auto reason = difference(peer, self_)) {
      throw Error(fmt::format("nodes {} and {} differ: {}", node, node_rank_, *reason), at_launcher("rendezvous"),
                  "start every node with the same program and flags, and each job with a port of its own");
    }
  }
  notice_.end();
  set_last_will(key(0, "ready/" + std::to_string(node_rank_)));
}

// The launcher may have joined and ended while others were awaited; waiting for it would be useless.
void StaticNodes::check_still_there(int node) {
  const auto text = client_->try_get(node_key(node));
  if (!text) return;
  const HostEntry peer = parse_host_entry(*text);
  if (last_in(gone_queue(node)) != peer.id) return;
  throw Error(fmt::format("the launcher of node {} on {} ended before all nodes were there", node, peer.label()),
              at_launcher("rendezvous"), "see what it says; start the job again");
}

// "node 3 of 4", "nodes 1, 3 of 4": the nodes from `from` on that have not joined.
std::string StaticNodes::missing_nodes(int from) {
  std::vector<int> missing;
  int more = 0;
  for (int node = from; node < plan_.nodes; ++node) {
    if (node != from && client_->try_get(node_key(node))) continue;
    if (missing.size() < kMostMissing) {
      missing.push_back(node);
    } else {
      ++more;
    }
  }
  return fmt::format("node{} {}{} of {}", missing.size() == 1 ? "" : "s", fmt::join(missing, ", "),
                     more > 0 ? fmt::format(" and {} more", more) : "", plan_.nodes);
}

std::string StaticNodes::key(int attempt, const std::string& what) const {
  return "launcher/attempt/" + std::to_string(attempt) + "/" + what;
}

Agreement StaticNodes::agree() {
  if (watcher_.joinable()) watcher_.join();  // the outcome is known
  if (outcome_.get()) ++attempt_;
  outcome_.reset();
  grants_.take();
  has_no_ranks_ = false;
  if (server_) server_->forget_generations_before(attempt_);
  Agreement agreement;
  agreement.generation = attempt_;
  agreement.nodes = plan_.nodes;
  agreement.node_rank = node_rank_;
  agreement.world_size = 0;
  // The ranks of another node may use all of their time to end.
  const Deadline deadline = Deadline::after(kAgreeTimeout + plan_.grace_after_failure);
  const auto ready = [this](int node) { return key(attempt_, "ready/" + std::to_string(node)); };
  const std::string port_key = key(attempt_, "master_port");
  if (node_rank_ == 0) client_->set(port_key, std::to_string(port_.emplace().number()));
  set_last_will(key(attempt_, "outcome"));
  client_->push(ready(node_rank_), std::to_string(plan_.local_ranks));
  for (int node = 0; node < plan_.nodes; ++node) {
    notice_.begin(fmt::format("waiting until node {} is ready to start its ranks", node), deadline);
    try {
      if (attempt_ == 0) check_still_there(node);
      const std::string local_ranks = client_->get(ready(node) + "/1", deadline);
      const auto story = story_of_loss(local_ranks);
      if (story) throw Error(*story, at_launcher("restart"), "see what it says; start the job again");
      if (node == node_rank_) agreement.first_rank = agreement.world_size;
      agreement.world_size += launcher_number(ready(node) + "/1", local_ranks, 1, kMostRanksOfNode);
    } catch (const StoreLostError& error) {
      throw server_gone(error, "before the ranks started");
    } catch (const TimeoutError&) {
      throw TimeoutError(fmt::format("node {} was not ready for attempt {} in time", node, attempt_),
                         at_launcher("restart"), "see what its launcher says; start the job again");
    }
  }
  notice_.end();
  agreement.master_port =
      static_cast<std::uint16_t>(launcher_number(port_key, client_->get(port_key, deadline), 1, kMostPorts));
  agreement.restarts = attempt_ + successors();
  first_successor_ = agreement.world_size;
  const SignalsBlocked blocked;
  watcher_ = start_thread("hears of the other nodes", [this] { watch_outcome(); });
  return agreement;
}

// Runs in its own thread, for one attempt.
void StaticNodes::watch_outcome() {
  const Outcome outcome = wait_for_outcome();
  notifier_.drop_later_messages();  // a report that gave others precedence
  outcome_.publish(outcome);
}

Outcome StaticNodes::wait_for_outcome() {
  const std::string place = first_in(key(attempt_, "outcome"));
  try {
    const std::string text = client_->get(place, Deadline::never());
    Outcome outcome = outcome_in(place, text);
    if (story_of_loss(text)) lost_one_ = true;
    if (!outcome.is_final) set_last_will(key(attempt_ + 1, "ready/" + std::to_string(node_rank_)));
    return outcome;
  } catch (const StoreLostError& error) {
    return {false, true, false, "the launcher of node 0, which serves the job's store, is lost: " + error.happened()};
  } catch (const Error& error) {
    return {false, true, false, error.happened() + "\n  " + error.fix()};
  } catch (const std::exception& error) {
    return {false, true, false, std::string("the job's store cannot be read: ") + error.what()};
  }
}

void StaticNodes::leave() {
  const Deadline deadline = Deadline::after(lost_one_ ? kLeaveTimeoutWithoutOne : kLeaveTimeout);
  notifier_.post([this, deadline] {
    try {
      const std::int64_t left = client_->add("launcher/left", 1);
      if (left == plan_.nodes) client_->set("launcher/all_left", "1");
      if (server_) client_->get("launcher/all_left", deadline);
    } catch (const Error&) {
      // The outcome is known; a node that has already ended does not need this store.
    }
  });
  notifier_.wait_until_done(deadline);
  client_->finish(deadline);  // ends messages to a server that does not answer
}

void StaticNodes::abort_leave() { client_->finish(Deadline::after(std::chrono::milliseconds(0))); }

}  // namespace lockstep
