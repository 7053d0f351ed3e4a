#include "lockstep/launch/node_group.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/base/topology.h"
#include "lockstep/launch/free_port.h"
#include "lockstep/net/secret.h"

namespace lockstep {
namespace {

constexpr std::chrono::seconds kAgreeTimeout{60};
constexpr std::chrono::milliseconds kLeaveTimeout{5000};
constexpr std::chrono::milliseconds kLeaveTimeoutWithoutOne{500};  // the others hear the outcome at once
constexpr std::chrono::seconds kSilence{10};
constexpr std::chrono::seconds kAliveInterval{1};
constexpr std::size_t kLongestStoryBytes = 16UL * 1024;

std::string without_brackets(const std::string& host) {
  const bool in_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  return in_brackets ? host.substr(1, host.size() - 2) : host;
}

std::string text_of(const NodeGroup::Outcome& outcome) {
  const nlohmann::json json{{"well", outcome.well}, {"final", outcome.is_final}, {"story", outcome.story}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);  // a program may write any bytes
}

std::string place(const std::string& what) { return "lockstep run on " + host_name() + ", " + what; }

}  // namespace

NodeGroup::NodeGroup(const LaunchPlan& plan, const std::string& socket)
    : plan_(plan), secret_(secret_from_environment()) {
  news_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!news_) throw Error("cannot make an event: " + errno_text(errno), place("start"), "raise ulimit -n");
  if (plan.nodes == 1) {
    address_ = SocketAddress::unix_socket(socket);
    if (secret_.empty()) secret_ = make_secret();
    server_ = std::make_unique<StoreServer>(address_, secret_);
    ranks_per_node_ = {plan.local_ranks};
    return;
  }
  address_ = SocketAddress::tcp(without_brackets(plan.master_addr), plan.master_port);
  node_rank_ = plan.node_rank;
  serve_or_find();
  enroll();
}

NodeGroup::~NodeGroup() { stop_watching(); }

// With ranks that are given, node 0 serves. Else whoever can listen on the address does, and is node 0.
void NodeGroup::serve_or_find() {
  const bool given = plan_.node_ranks == NodeRanks::Given;
  const bool must_serve = plan_.serves_store.value_or(given && node_rank_ == 0);
  const bool may_serve = must_serve || (!given && !plan_.serves_store.has_value());
  std::string refusal;
  if (may_serve) {
    try {
      server_ = std::make_unique<StoreServer>(address_, secret_);
    } catch (const Error& error) {
      if (must_serve) throw;
      refusal = error.happened();
    }
  }
  const Deadline deadline = Deadline::after(plan_.join_timeout);
  try {
    client_ = std::make_unique<StoreClient>(address_, secret_, deadline);
  } catch (const TimeoutError& error) {
    const std::string also = refusal.empty() ? "" : "; and this node could not serve it: " + refusal;
    throw TimeoutError(error.happened() + also, error.where(), error.fix());
  }
  if (!given) {
    node_rank_ = server_ ? 0 : static_cast<int>(client_->add("launcher/arrivals", 1));
    if (node_rank_ >= plan_.nodes) {
      throw Error(fmt::format("this is node {} of a job of {} nodes", node_rank_ + 1, plan_.nodes), place("rendezvous"),
                  "start as many nodes as --nnodes says, and give each job an endpoint of its own");
    }
  }
}

void NodeGroup::enroll() {
  const nlohmann::json self{{"host", host_name()},
                            {"pid", ::getpid()},
                            {"local_ranks", plan_.local_ranks},
                            {"nodes", plan_.nodes},
                            {"max_restarts", plan_.max_restarts},
                            {"run_id", plan_.run_id}};
  const auto node_key = [](int node) { return "launcher/node/" + std::to_string(node); };
  const std::string stands = client_->compare_set(node_key(node_rank_), "", self.dump());
  if (stands != self.dump()) {
    const auto other = nlohmann::json::parse(stands, nullptr, false);
    throw Error(fmt::format("two launchers claim node rank {}: this one, and that on {}", node_rank_,
                            other.value("host", "another host")),
                place("rendezvous"), "give each node its own --node-rank, from 0 to nnodes-1");
  }
  const Deadline deadline = Deadline::after(plan_.join_timeout);
  for (int node = 0; node < plan_.nodes; ++node) {
    nlohmann::json peer;
    try {
      peer = nlohmann::json::parse(client_->get(node_key(node), deadline), nullptr, false);
    } catch (const TimeoutError&) {
      throw TimeoutError(
          fmt::format("node {} of {} did not come within {} s", node, plan_.nodes,
                      std::chrono::duration<double>(plan_.join_timeout).count()),
          place("rendezvous at " + address_.text()),
          "start it with the same --master-addr and --master-port, or raise --rdzv-conf timeout=SECONDS");
    }
    for (const char* what : {"nodes", "max_restarts", "run_id"}) {
      if (peer.value(what, nlohmann::json()) != self[what]) {
        throw Error(fmt::format("nodes {} and {} differ in {}: {} and {}", node_rank_, node, what, self[what].dump(),
                                peer.value(what, nlohmann::json()).dump()),
                    place("rendezvous"), "start every node with the same flags");
      }
    }
    ranks_per_node_.push_back(std::clamp(peer.value("local_ranks", 1), 1, 65536));
  }
}

std::string NodeGroup::key(const std::string& what) const {
  return "launcher/attempt/" + std::to_string(attempt_) + "/" + what;
}

Agreement NodeGroup::agree(int attempt) {
  stop_watching();
  attempt_ = attempt;
  Agreement agreement;
  agreement.node_rank = node_rank_;
  agreement.first_rank = std::accumulate(ranks_per_node_.begin(), ranks_per_node_.begin() + node_rank_, 0);
  agreement.world_size = std::accumulate(ranks_per_node_.begin(), ranks_per_node_.end(), 0);
  if (!client_) {
    agreement.master_port = plan_.master_port != 0 ? plan_.master_port : free_port();
    return agreement;
  }
  const Deadline deadline = Deadline::after(kAgreeTimeout);
  if (node_rank_ == 0) client_->set(key("master_port"), std::to_string(free_port()));
  client_->set(key("ready/" + std::to_string(node_rank_)), "1");
  for (int node = 0; node < plan_.nodes; ++node) {
    try {
      client_->get(key("ready/" + std::to_string(node)), deadline);
    } catch (const TimeoutError&) {
      throw TimeoutError(
          fmt::format("node {} was not ready for attempt {} within {} s", node, attempt, kAgreeTimeout.count()),
          place("restart"), "see what its launcher says; start the job again");
    }
  }
  agreement.master_port = static_cast<std::uint16_t>(std::stoi(client_->get(key("master_port"), deadline)));
  stop_ = false;
  watcher_ = std::thread([this] { watch_outcome(); });
  return agreement;
}

void NodeGroup::mark_lost(int rank, const std::string& cause) {
  if (server_) server_->mark_lost(attempt_, LostRank{rank, host_name(), cause});
}

void NodeGroup::report_failure(const std::string& story, bool is_final) {
  const Outcome outcome{false, is_final, story.substr(0, kLongestStoryBytes)};
  if (!client_) return publish(outcome);
  try {
    client_->compare_set(key("outcome"), "", text_of(outcome));
  } catch (const Error&) {
    publish(outcome);  // the store is gone, and with it the job: this node's story is what there is to tell
  }
}

void NodeGroup::report_well() {
  const Outcome outcome{true, true, ""};
  if (!client_) return publish(outcome);
  try {
    if (client_->add(key("well"), 1) == plan_.nodes) {
      client_->compare_set(key("outcome"), "", text_of(outcome));
    }
  } catch (const Error& error) {
    publish({false, true, error.happened()});
  }
}

void NodeGroup::publish(const Outcome& outcome) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (outcome_) return;
    outcome_ = outcome;
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(news_.get(), &one, sizeof(one));
}

std::optional<NodeGroup::Outcome> NodeGroup::outcome() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return outcome_;
}

// A launcher whose host went away says nothing and closes nothing.
void NodeGroup::look_after_others() {
  for (int node = 1; node < plan_.nodes; ++node) {
    const std::string sign = client_->try_get("launcher/alive/" + std::to_string(node)).value_or("0");
    const auto found = heard_.find(node);
    if (found == heard_.end() || found->second.first != sign) {
      heard_.insert_or_assign(node, std::make_pair(sign, Deadline::after(kSilence)));
    } else if (found->second.second.passed()) {
      lost_one_ = true;
      report_failure(fmt::format("the launcher of node {} was not heard of for {} s", node, kSilence.count()), true);
      return;
    }
  }
}

// Runs in a thread of its own, for one attempt.
void NodeGroup::watch_outcome() {
  const auto interval =
      std::clamp(plan_.monitor_interval, std::chrono::milliseconds(10), std::chrono::milliseconds(1000));
  try {
    heard_.clear();
    Deadline next_sign = Deadline::after(std::chrono::milliseconds(0));
    while (!stop_) {
      try {
        const auto outcome = nlohmann::json::parse(client_->get(key("outcome"), Deadline::after(interval)));
        return publish(
            {outcome.at("well").get<bool>(), outcome.at("final").get<bool>(), outcome.at("story").get<std::string>()});
      } catch (const TimeoutError&) {
      }
      if (!next_sign.passed()) continue;
      next_sign = Deadline::after(kAliveInterval);
      client_->add("launcher/alive/" + std::to_string(node_rank_), 1);
      if (server_) look_after_others();
    }
  } catch (const std::exception& error) {
    publish(
        {false, true, "the launcher of node 0, which serves the job's store, is lost: " + std::string(error.what())});
  }
}

void NodeGroup::stop_watching() {
  stop_ = true;
  if (watcher_.joinable()) watcher_.join();
  const std::lock_guard<std::mutex> lock(mutex_);
  outcome_.reset();
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(news_.get(), &count, sizeof(count));
}

void NodeGroup::leave() {
  if (!client_) return;
  const Deadline deadline = Deadline::after(lost_one_ ? kLeaveTimeoutWithoutOne : kLeaveTimeout);
  try {
    const std::int64_t left = client_->add("launcher/left", 1);
    if (left == plan_.nodes) client_->set("launcher/all_left", "1");
    if (server_) client_->get("launcher/all_left", deadline);
    client_->finish(deadline);
  } catch (const Error&) {
    // The outcome is known; whoever is gone already does not need this store.
  }
}

}  // namespace lockstep
