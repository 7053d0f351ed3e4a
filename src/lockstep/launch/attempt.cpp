#include "lockstep/launch/attempt.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <chrono>

#include "lockstep/base/log.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/base/signals.h"
#include "lockstep/launch/process/process_table.h"
#include "lockstep/launch/ranks/failure_report.h"
#include "lockstep/net/worlds/job_memory.h"

namespace lockstep {
namespace {

// A rank that lost a peer may end before the peer itself does, because the peer is still unwinding: it gets this long
// to end,
constexpr std::chrono::milliseconds kWaitForCause{300};
// or this long if it runs on this node and was named. Its end cuts the wait short.
constexpr std::chrono::seconds kWaitForTheNamed{5};

// The ranks that are started see for themselves whether they can use it.
std::string memory_note(int file) {
  const auto steps = steps_in_memory(file);
  return steps ? fmt::format("\n  the launcher still has the training's state in memory, after update {}", *steps) : "";
}

// A signal again within this time is the same request: `timeout` sends one to a command, and to its group. If the two
// are of different kinds, the ranks get both.
constexpr std::chrono::seconds kSameRequest{1};

bool by_time(const Deadline& a, const Deadline& b) { return a.at() < b.at(); }

}  // namespace

Attempt::Attempt(LauncherParts parts, NodeGroup& nodes, SignalInbox& signals)
    : parts_(parts),
      nodes_(nodes),
      signals_(signals),
      ranks_(
          parts, [this](const RankEnd& end) { take_end(end); }, [this] { nodes_.report_survival(); }) {
  signal_watch_ = parts_.loop.watch_readable(signals_.fd(), [this] { take_signals(); });
  outcome_watch_ = parts_.loop.watch_readable(nodes_.outcome().fd(), [this] { take_outcome(); });
  grant_watch_ = parts_.loop.watch_readable(nodes_.grants().fd(), [this] { take_grants(); });
}

Attempt::~Attempt() {
  parts_.loop.forget(signal_watch_);
  parts_.loop.forget(outcome_watch_);
  parts_.loop.forget(grant_watch_);
}

void Attempt::run() {
  while (!ranks_.all_ended() || (!outcome_ && !signal_)) {
    parts_.loop.wait(std::min(ranks_.next_deadline(), report_at_, by_time));
    if (report_at_.passed()) report_failure();
    ranks_.act_on_time();
  }
}

void Attempt::clean_up() {
  const bool was_stopped = ranks_.sent().number != 0;
  const Deadline kill_at = was_stopped ? ranks_.kill_at() : Deadline::after(parts_.plan.grace_after_failure);
  const auto is_urgent = [this] { return stop_was_asked_for(); };
  for (const pid_t pid : end_descendants(parts_.helpers(), ranks_.sent(), kill_at, is_urgent)) {
    log_warning("process {} does not end, not even by SIGKILL: it hangs in the kernel", pid);
  }
  ranks_.finish_output();
}

std::string Attempt::story_of_other_node() const {
  if (!outcome_ || outcome_->story == own_story_) return "";
  return outcome_->story;
}

void Attempt::start(const std::vector<RankPlace>& places) {
  ranks_.start(places);
  nodes_.await_survival(ranks_.survival_files());
}

// Ranks that have announced it continue without one that fails, as long as one of them is there or has succeeded. If
// the last one of this node fails, the other nodes may have one.
bool Attempt::is_survived(const RankEnd& end) const {
  if (is_over() || end.status.success() || end.was_asked) return false;
  if (stopped_in_order(end)) return false;
  const bool has_others = ranks_.running_members() > 0 || ranks_.a_member_succeeded() || nodes_.spans_nodes();
  return ranks_.last_announced_survival() && has_others;
}

void Attempt::continue_without(const RankEnd& end) {
  ranks_.note_survived();
  const std::string who =
      fmt::format("rank {} (local rank {}, pid {}) on {}", end.rank, end.local_rank, end.pid, host_name());
  if (end.was_member) {
    log_warning("{} ended: {}. {}", who, end.status.describe(), survivors());
  } else {
    log_warning("{}, which was to join the running ranks, ended: {}", who, describe_end(end));
  }
  if (ranks_.a_member_succeeded()) return;
  if (ranks_.running_members() > 0) {
    nodes_.report_survival();  // the announcement may not have been seen yet
  } else if (end.was_member) {
    own_story_ = describe_failure(*first_failure(ranks_.ends()));
    nodes_.report_no_ranks(own_story_);
  }
  // A process that was not let in, and ended by itself, would do so again.
  if (!end.was_member && end.status.signal == 0) return;
  to_replace_.push_back(end);
  nodes_.ask_for_member();
}

std::string Attempt::survivors() const {
  const int left = ranks_.running_members();
  if (left > 0) return fmt::format("The others continue with {} rank{} on this host", left, left == 1 ? "" : "s");
  if (ranks_.a_member_succeeded()) return "The others had finished their work";
  return "No rank is left on this host: the ranks of other hosts continue";
}

void Attempt::take_grants() {
  for (const std::optional<int> member : nodes_.grants().take()) {
    if (to_replace_.empty()) continue;
    const RankEnd end = std::move(to_replace_.front());
    to_replace_.pop_front();
    if (member && !is_over()) replace(end, *member);
  }
}

void Attempt::replace(const RankEnd& end, int member) {
  try {
    ranks_.replace(end, member);
    nodes_.await_survival(ranks_.survival_files());
  } catch (const Error& error) {
    nodes_.mark_lost(member, "it could not be started");
    log_warning("no process takes the place of rank {}: {}", end.rank, error.happened());
  }
}

void Attempt::take_end(const RankEnd& last) {
  const RankEnd end = last;  // a process that takes its place may end at once, too
  if (end.status.success()) nodes_.note_success(end.member);
  if (!end.status.success() && !end.was_asked) {
    nodes_.mark_lost(end.member, end.status.describe());
    if (is_survived(end)) {
      continue_without(end);
    } else if (phase_ == Phase::Running) {
      phase_ = Phase::AwaitsCause;
    }
  }
  // Nobody is left to let the others in.
  if (phase_ == Phase::Running && !signal_ && ranks_.running_members() == 0 && ranks_.a_member_succeeded() &&
      !ranks_.all_ended()) {
    ranks_.stop(SIGTERM, parts_.plan.grace_after_failure);
  }
  if (phase_ == Phase::AwaitsCause) {
    if (!end.was_asked && !outcome_ && !signal_) report_once_cause_is_known();
  } else if (phase_ == Phase::Running && ranks_.all_ended() && !signal_ && ranks_.a_member_succeeded()) {
    nodes_.report_success();
  }
}

void Attempt::report_once_cause_is_known() {
  // The others stop too. A further signal would end one that got the first, while it saves.
  if (first_stop(ranks_.ends()) != nullptr && !ranks_.all_ended()) {
    if (report_at_.is_never()) report_at_ = Deadline::after(parts_.plan.grace_after_signal);
    return;
  }
  const RankEnd& first = *first_failure(ranks_.ends());
  const int named = is_consequence(first) ? blamed_by(first) : -1;
  const auto is_named = [named](const RankEnd& end) { return end.rank == named; };
  const bool named_has_ended = std::any_of(ranks_.ends().begin(), ranks_.ends().end(), is_named);
  if (!is_consequence(first) || named_has_ended || ranks_.all_ended()) return report_failure();
  const bool runs_here = named >= 0 && ranks_.is_running_rank(named);
  const Deadline by = runs_here ? Deadline::after(kWaitForTheNamed) : Deadline::after(kWaitForCause);
  report_at_ = std::min(report_at_, by, by_time);
}

void Attempt::report_failure() {
  report_at_ = Deadline::never();
  phase_ = Phase::Reported;
  const RankEnd& first = *first_failure(ranks_.ends());
  own_story_ = describe_failure(first);
  const bool was_warned = obeyed_warning(first) || died_of_warning(first);
  nodes_.report_failure(
      {own_story_, is_consequence(first), is_usage_error(first) || was_warned, ranks_.joined_members()});
  ranks_.stop(SIGTERM, was_warned ? parts_.plan.grace_after_signal : parts_.plan.grace_after_failure);
}

void Attempt::take_outcome() {
  parts_.loop.forget(outcome_watch_);  // an attempt has only one outcome
  outcome_ = nodes_.outcome().get();
  if (!outcome_) return;
  if (outcome_->success) {  // processes that were to join are not needed any more
    if (!ranks_.all_ended() && !signal_) ranks_.stop(SIGTERM, parts_.plan.grace_after_failure);
    return;
  }
  if (!outcome_->is_final) log_warning("{}{}", outcome_->story, memory_note(parts_.memory));
  if (outcome_->runs_elsewhere && !signal_) return ranks_.stop(SIGKILL, std::chrono::milliseconds(0));
  // The ranks get more time to save their state after a signal, and if nothing has failed.
  const bool has_time = outcome_->has_time || first_stop(ranks_.ends()) != nullptr;
  const auto grace = has_time ? parts_.plan.grace_after_signal : parts_.plan.grace_after_failure;
  if (!signal_) ranks_.stop(SIGTERM, grace);
}

// Call it only while nothing else is awaited, because it drops SIGCHLD.
bool Attempt::stop_was_asked_for() {
  while (const std::optional<int> number = signals_.take()) urgent_ = urgent_ || SignalInbox::asks_to_end(*number);
  return urgent_;
}

void Attempt::take_signals() {
  while (const std::optional<int> number = signals_.take()) {
    if (*number == SIGCHLD) {
      reap_orphans(parts_.helpers(), [this](pid_t pid) { return ranks_.is_running(pid); });
      continue;
    }
    if (is_warning_signal(*number)) {
      pass_on(*number);
      continue;
    }
    const auto now = std::chrono::steady_clock::now();
    const bool again = signal_ && now - signal_time_ >= kSameRequest;
    if (!signal_) {
      signal_ = *number;
      signal_time_ = now;
      nodes_.report_leaving(
          fmt::format("the launcher of node {} was told to end by {}", nodes_.node_rank(), signal_name(*number)));
    }
    ranks_.stop(*number, again ? std::chrono::milliseconds(0) : parts_.plan.grace_after_signal);
  }
}

// What it means, and when they end, is for the ranks to say. The batch system ends the job if they do not.
void Attempt::pass_on(int warning) {
  if (ranks_.all_ended()) return;
  log_warning("{} arrived, a batch system's warning; it is passed on to the ranks, which may save and stop",
              signal_name(warning));
  ranks_.warn(warning);
}

}  // namespace lockstep
