// What a node reports about its ranks to the others, by messages to the store that the event loop does not wait for.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/launch/launcher_words.h"
#include "lockstep/launch/nodes/static_nodes.h"

namespace lockstep {
namespace {

// A failure that another rank explains is reported this much later, because the cause may be on another node, whose
// launcher reports it as soon as its rank has ended.
constexpr std::chrono::milliseconds kPrecedenceOfCause{2000};
constexpr std::size_t kLongestStoryBytes = 16UL * 1024;
// One number counts the nodes whose ranks have all succeeded, in steps of this, and those that have no rank left which
// survives others. So a node that changes it sees both at one moment.
constexpr std::int64_t kSuccess = std::int64_t{1} << 20;
constexpr const char* kSuccessors = "launcher/successors";  // of lost ranks, in all attempts

}  // namespace

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
      const std::int64_t tally = client_->add(key(attempt, "tally"), change);
      const std::int64_t succeeded = tally / kSuccess, without_ranks = tally % kSuccess;
      if (without_ranks == plan_.nodes) push_failure(story, attempt, plan_.max_restarts);
      if (succeeded > 0 && succeeded + without_ranks == plan_.nodes) {
        client_->push(key(attempt, "outcome"), text_of_outcome({true, true, false, ""}));
      }
    } catch (const Error& error) {
      outcome_.publish({false, true, false, error.happened()});
    }
  });
}

void StaticNodes::push_failure(const std::string& story, int attempt, int max_restarts) {
  try {
    const Outcome outcome = Outcome::of_failure(story, attempt + successors(), max_restarts);
    client_->push(key(attempt, "outcome"), text_of_outcome(outcome));
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
  notifier_.post([this, why, queue = key(attempt_, "outcome")] {
    const Outcome outcome{false, true, false, why};
    try {
      client_->push(queue, text_of_outcome(outcome));
    } catch (const Error&) {
      outcome_.publish(outcome);
    }
  });
}

}  // namespace lockstep
