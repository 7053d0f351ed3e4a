#include "lockstep/launch/nodes/static_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/processor/topology.h"
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
constexpr int kMostRanksOfNode = 1 << 20;
constexpr int kMostPorts = 65535;
// A failure that another rank explains is reported this much later, because the cause may be on another node, whose
// launcher reports it as soon as its rank has ended.
constexpr std::chrono::milliseconds kPrecedenceOfCause{2000};
constexpr std::size_t kLongestStoryBytes = 16UL * 1024;
// One number counts the nodes whose ranks have all succeeded, in steps of this, and those that have no rank left which
// survives others. So a node that changes it sees both at one moment.
constexpr std::int64_t kSuccess = std::int64_t{1} << 20;
constexpr const char* kSuccessors = "launcher/successors";  // of lost ranks, in all attempts

// The server ends by itself if it has a reason, which it reports.
Error server_gone(const StoreLostError& error, const std::string& when) {
  return Error(fmt::format("the launcher of node 0, which serves the job's store, has ended or is out of reach {}: {}",
                           when, error.happened()),
               error.where(), "read that launcher's output");
}

std::string first_in(const std::string& queue) { return queue + "/1"; }

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
  enrolment_.emplace(plan_, *client_, self_, node_rank_);
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

void StaticNodes::enroll() {
  enrolment_->claim_rank(server_ != nullptr);
  enrolment_->await_all(notice_);
  set_last_will(attempt_key(0, "ready/" + std::to_string(node_rank_)));
}

// The text that the others read in that queue if this launcher is lost from now on.
void StaticNodes::set_last_will(const std::string& queue) {
  if (server_) return;  // if this launcher is lost, so is the store
  client_->set_will(
      queue, fmt::format("{}the launcher of node {} on {} is lost: ", kLostLauncherMark, node_rank_, self_.label()),
      plan_.keep_alive);
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
  const auto ready = [this](int node) { return attempt_key(attempt_, "ready/" + std::to_string(node)); };
  const std::string port_key = attempt_key(attempt_, "master_port");
  if (node_rank_ == 0) client_->set(port_key, std::to_string(port_.emplace().number()));
  set_last_will(attempt_key(attempt_, "outcome"));
  client_->push(ready(node_rank_), std::to_string(plan_.local_ranks));
  for (int node = 0; node < plan_.nodes; ++node) {
    notice_.begin(fmt::format("waiting until node {} is ready to start its ranks", node), deadline);
    try {
      if (attempt_ == 0) enrolment_->check_still_there(node);
      const std::string local_ranks = client_->get(ready(node) + "/1", deadline);
      const auto story = story_of_loss(local_ranks);
      if (story) throw Error(*story, at_launcher("restart"), "read its output; start the job again");
      if (node == node_rank_) agreement.first_rank = agreement.world_size;
      agreement.world_size += launcher_number(ready(node) + "/1", local_ranks, 1, kMostRanksOfNode);
    } catch (const StoreLostError& error) {
      throw server_gone(error, "before the ranks started");
    } catch (const TimeoutError&) {
      throw TimeoutError(fmt::format("node {} was not ready for attempt {} in time", node, attempt_),
                         at_launcher("restart"), "read its launcher's output; start the job again");
    }
  }
  notice_.end();
  agreement.master_port =
      static_cast<std::uint16_t>(launcher_number(port_key, client_->get(port_key, deadline), 1, kMostPorts));
  agreement.restarts = attempt_ + successors();
  first_successor_ = agreement.world_size;
  const SignalsBlocked blocked;
  watcher_ = start_thread("waits for the other nodes", [this] { watch_outcome(); });
  return agreement;
}

// Runs in its own thread, for one attempt.
void StaticNodes::watch_outcome() {
  const Outcome outcome = wait_for_outcome();
  notifier_.drop_later_messages();  // a report that gave others precedence
  outcome_.publish(outcome);
}

Outcome StaticNodes::wait_for_outcome() {
  const std::string place = first_in(attempt_key(attempt_, "outcome"));
  try {
    const std::string text = client_->get(place, Deadline::never());
    Outcome outcome = outcome_in(place, text);
    if (story_of_loss(text)) lost_one_ = true;
    if (!outcome.is_final) set_last_will(attempt_key(attempt_ + 1, "ready/" + std::to_string(node_rank_)));
    return outcome;
  } catch (const StoreLostError& error) {
    return {false, true, false, "the launcher of node 0, which serves the job's store, is lost: " + error.happened()};
  } catch (const Error& error) {
    return {false, true, false, error.happened() + "\n  " + error.fix()};
  } catch (const std::exception& error) {
    return {false, true, false, std::string("the job's store cannot be read: ") + error.what()};
  }
}

void StaticNodes::mark_lost(int rank, const std::string& cause) {
  if (server_) server_->mark_lost(attempt_, LostRank{rank, host_name(), cause});
}

int StaticNodes::successors() {
  const auto count = client_->try_get(kSuccessors);
  const int granted = count ? launcher_number(kSuccessors, *count, 0, std::numeric_limits<int>::max()) : 0;
  return std::min(granted, plan_.max_restarts);  // one that is refused is counted for a moment
}

void StaticNodes::ask_for_member() {
  notifier_.post([this, attempt = attempt_, first = first_successor_] {
    std::optional<int> member;
    try {
      const std::int64_t number = client_->add(kSuccessors, 1);
      if (attempt + number <= plan_.max_restarts) {
        member = first + static_cast<int>(number) - 1;
      } else {
        client_->add(kSuccessors, -1);
      }
    } catch (const Error& error) {
      log_info("no process takes a lost rank's place: {}", error.happened());  // the job ends without its store
    }
    grants_.push(member);
  });
}

void StaticNodes::report_survival() {
  if (std::exchange(has_no_ranks_, false)) count(-1, "");
}

void StaticNodes::report_no_ranks(const std::string& story) {
  if (!std::exchange(has_no_ranks_, true)) count(1, story.substr(0, kLongestStoryBytes));
}

void StaticNodes::report_success() { count(kSuccess - (std::exchange(has_no_ranks_, false) ? 1 : 0), ""); }

// @param story  how the last rank of this node was lost
void StaticNodes::count(std::int64_t change, const std::string& story) {
  notifier_.post([this, change, story, attempt = attempt_] {
    try {
      const std::int64_t tally = client_->add(attempt_key(attempt, "tally"), change);
      const std::int64_t succeeded = tally / kSuccess, without_ranks = tally % kSuccess;
      if (without_ranks == plan_.nodes) push_failure(story, attempt, plan_.max_restarts);
      if (succeeded > 0 && succeeded + without_ranks == plan_.nodes) {
        client_->push(attempt_key(attempt, "outcome"), text_of_outcome({true, true, false, ""}));
      }
    } catch (const Error& error) {
      outcome_.publish({false, true, false, error.happened()});
    }
  });
}

void StaticNodes::push_failure(const std::string& story, int attempt, int max_restarts) {
  try {
    const Outcome outcome = Outcome::of_failure(story, attempt + successors(), max_restarts);
    client_->push(attempt_key(attempt, "outcome"), text_of_outcome(outcome));
  } catch (const Error&) {
    // The store has ended, and so has the job: only this node's story is left to report.
    outcome_.publish(Outcome::of_failure(story, attempt, max_restarts));
  }
}

// The first outcome in the queue counts. Another node's cause has time to arrive before what it explains, which is then
// dropped.
void StaticNodes::report_failure(const RankFailure& failure) {
  const int restarts = failure.recurs ? Outcome::kNoRestarts : plan_.max_restarts;
  const auto push = [this, story = failure.story.substr(0, kLongestStoryBytes), attempt = attempt_, restarts] {
    push_failure(story, attempt, restarts);
  };
  if (failure.blames_a_peer) {
    notifier_.post_later(Deadline::after(kPrecedenceOfCause), push);
  } else {
    notifier_.post(push);
  }
}

void StaticNodes::report_leaving(const std::string& why) {
  notifier_.post([this, why, queue = attempt_key(attempt_, "outcome")] {
    const Outcome outcome{false, true, false, why};
    try {
      client_->push(queue, text_of_outcome(outcome));
    } catch (const Error&) {
      outcome_.publish(outcome);
    }
  });
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
