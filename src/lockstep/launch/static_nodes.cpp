#include "lockstep/launch/static_nodes.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/base/topology.h"
#include "lockstep/launch/free_port.h"
#include "lockstep/launch/host_entry.h"
#include "lockstep/net/secret.h"
#include "lockstep/net/signal_mask.h"

namespace lockstep {
namespace {

constexpr std::chrono::seconds kAgreeTimeout{60};
constexpr std::chrono::milliseconds kLeaveTimeout{5000};
constexpr std::chrono::milliseconds kLeaveTimeoutWithoutOne{500};  // the others hear the outcome at once
constexpr std::chrono::seconds kSilence{10};
constexpr std::chrono::seconds kAliveInterval{1};
constexpr std::size_t kLongestStoryBytes = 16UL * 1024;

std::string text_of_outcome(const Outcome& outcome) {
  const nlohmann::json json{{"well", outcome.well}, {"final", outcome.is_final}, {"story", outcome.story}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);  // a program may write any bytes
}

std::string at_launcher(const std::string& what) { return "lockstep run on " + host_name() + ", " + what; }

}  // namespace

StaticNodes::StaticNodes(const LaunchPlan& plan)
    : plan_(plan), address_(store_address_of(plan)), secret_(secret_from_environment()), node_rank_(plan.node_rank) {
  if (plan.serves_store.value_or(node_rank_ == 0)) server_ = std::make_unique<StoreServer>(address_, secret_);
  StoreClientOptions options;
  if (!server_) options.silence_limit = kSilence;
  client_ = std::make_unique<StoreClient>(address_, secret_, Deadline::after(plan_.join_timeout), options);
  enroll();
}

StaticNodes::~StaticNodes() { stop_watching(); }

void StaticNodes::enroll() {
  HostEntry self = HostEntry::of(plan_);
  self.rest.clear();  // a node of its own number may have arguments of its own
  const std::string own = nlohmann::json(self).dump();
  const auto node_key = [](int node) { return "launcher/node/" + std::to_string(node); };
  const std::string stands = client_->compare_set(node_key(node_rank_), "", own);
  if (stands != own) {
    throw Error(fmt::format("two launchers claim node rank {}: this one, and that on {}", node_rank_,
                            parse_host_entry(stands).name),
                at_launcher("rendezvous"), "give each node its own --node-rank, from 0 to nnodes-1");
  }
  const Deadline deadline = Deadline::after(plan_.join_timeout);
  for (int node = 0; node < plan_.nodes; ++node) {
    HostEntry peer;
    try {
      peer = parse_host_entry(client_->get(node_key(node), deadline));
    } catch (const TimeoutError&) {
      throw TimeoutError(
          fmt::format("node {} of {} did not come within {} s", node, plan_.nodes,
                      std::chrono::duration<double>(plan_.join_timeout).count()),
          at_launcher("rendezvous at " + address_.text()),
          "start it with the same --master-addr and --master-port, or raise --rdzv-conf timeout=SECONDS");
    }
    if (const auto reason = difference(peer, self)) {
      throw Error(fmt::format("nodes {} and {} differ: {}", node, node_rank_, *reason), at_launcher("rendezvous"),
                  "start every node with the same program and flags, and each job with a port of its own");
    }
    ranks_per_node_.push_back(peer.local_ranks);
  }
}

std::string StaticNodes::key(const std::string& what) const {
  return "launcher/attempt/" + std::to_string(attempt_) + "/" + what;
}

Agreement StaticNodes::agree() {
  stop_watching();
  if (news_.get()) ++attempt_;
  news_.reset();
  if (server_) server_->forget_generations_before(attempt_);
  Agreement agreement;
  agreement.generation = agreement.restarts = attempt_;
  agreement.nodes = plan_.nodes;
  agreement.node_rank = node_rank_;
  agreement.first_rank = std::accumulate(ranks_per_node_.begin(), ranks_per_node_.begin() + node_rank_, 0);
  agreement.world_size = std::accumulate(ranks_per_node_.begin(), ranks_per_node_.end(), 0);
  const Deadline deadline = Deadline::after(kAgreeTimeout);
  if (node_rank_ == 0) client_->set(key("master_port"), std::to_string(free_port()));
  client_->set(key("ready/" + std::to_string(node_rank_)), "1");
  for (int node = 0; node < plan_.nodes; ++node) {
    try {
      client_->get(key("ready/" + std::to_string(node)), deadline);
    } catch (const TimeoutError&) {
      throw TimeoutError(
          fmt::format("node {} was not ready for attempt {} within {} s", node, attempt_, kAgreeTimeout.count()),
          at_launcher("restart"), "see what its launcher says; start the job again");
    }
  }
  agreement.master_port = static_cast<std::uint16_t>(std::stoi(client_->get(key("master_port"), deadline)));
  stop_ = false;
  const SignalsBlocked blocked;
  watcher_ = std::thread([this] { watch_outcome(); });
  return agreement;
}

void StaticNodes::mark_lost(int rank, const std::string& cause) {
  if (server_) server_->mark_lost(attempt_, LostRank{rank, host_name(), cause});
}

void StaticNodes::report_failure(const std::string& story, bool /*blames_a_peer*/) {
  report(Outcome::of_failure(story.substr(0, kLongestStoryBytes), attempt_, plan_.max_restarts));
}

void StaticNodes::report_leaving(const std::string& why) { report({false, true, false, why}); }

void StaticNodes::report(const Outcome& outcome) {
  speaker_.say([this, outcome, key = key("outcome")] {
    try {
      client_->compare_set(key, "", text_of_outcome(outcome));
    } catch (const Error&) {
      news_.publish(outcome);  // the store is gone, and with it the job: this node's story is what there is to tell
    }
  });
}

void StaticNodes::report_well() {
  speaker_.say([this, key = key("outcome"), well = key("well")] {
    try {
      if (client_->add(well, 1) < plan_.nodes) return;
      client_->compare_set(key, "", text_of_outcome({true, true, false, ""}));
    } catch (const Error& error) {
      news_.publish({false, true, false, error.happened()});
    }
  });
}

// A launcher whose host went away says nothing and closes nothing.
void StaticNodes::look_after_others() {
  for (int node = 1; node < plan_.nodes; ++node) {
    const std::string sign = client_->try_get("launcher/alive/" + std::to_string(node)).value_or("0");
    const auto found = heard_.find(node);
    if (found == heard_.end() || found->second.first != sign) {
      heard_.insert_or_assign(node, std::make_pair(sign, Deadline::after(kSilence)));
    } else if (found->second.second.passed()) {
      lost_one_ = true;
      report_leaving(fmt::format("the launcher of node {} was not heard of for {} s", node, kSilence.count()));
      return;
    }
  }
}

// Runs in a thread of its own, for one attempt.
void StaticNodes::watch_outcome() {
  const auto interval =
      std::clamp(plan_.monitor_interval, std::chrono::milliseconds(10), std::chrono::milliseconds(1000));
  try {
    heard_.clear();
    Deadline next_sign = Deadline::after(std::chrono::milliseconds(0));
    while (!stop_) {
      try {
        const auto outcome = nlohmann::json::parse(client_->get(key("outcome"), Deadline::after(interval)));
        return news_.publish({outcome.at("well").get<bool>(), outcome.at("final").get<bool>(), false,
                              outcome.at("story").get<std::string>()});
      } catch (const TimeoutError&) {
      }
      if (!next_sign.passed()) continue;
      next_sign = Deadline::after(kAliveInterval);
      client_->add("launcher/alive/" + std::to_string(node_rank_), 1);
      if (server_) look_after_others();
    }
  } catch (const std::exception& error) {
    news_.publish({false, true, false,
                   "the launcher of node 0, which serves the job's store, is lost: " + std::string(error.what())});
  }
}

void StaticNodes::stop_watching() {
  stop_ = true;
  if (watcher_.joinable()) watcher_.join();
}

void StaticNodes::leave() {
  const Deadline deadline = Deadline::after(lost_one_ ? kLeaveTimeoutWithoutOne : kLeaveTimeout);
  speaker_.say([this, deadline] {
    try {
      const std::int64_t left = client_->add("launcher/left", 1);
      if (left == plan_.nodes) client_->set("launcher/all_left", "1");
      if (server_) client_->get("launcher/all_left", deadline);
    } catch (const Error&) {
      // The outcome is known; whoever is gone already does not need this store.
    }
  });
  speaker_.wait_until_said(deadline);
  client_->finish(deadline);  // ends what is still being said to a server that does not answer
}

}  // namespace lockstep
