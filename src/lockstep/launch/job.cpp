#include "lockstep/launch/job.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/launch/failure_report.h"
#include "lockstep/launch/free_port.h"
#include "lockstep/launch/node_group.h"
#include "lockstep/launch/process_table.h"
#include "lockstep/launch/rank_group.h"
#include "lockstep/launch/signal_inbox.h"
#include "lockstep/net/secret.h"

namespace lockstep {
namespace {

// A rank that lost a peer may end before the peer itself does, which is still unwinding: it gets this long to show.
constexpr std::chrono::milliseconds kWaitForCause{300};

// Descriptors 0 to 2 must be somebody's, or files opened later would take their place and get the ranks' output.
void fill_standard_descriptors() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    while (::fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", O_RDWR) >= 0) {
    }
  }
}

// Unique on this host; a job inside a job carries both marks, so that the outer one's guard finds its processes too.
std::string make_job_mark() {
  const char* outer = std::getenv(kJobMarkVariable);
  const std::string own = make_secret().substr(0, 16);
  return outer != nullptr && *outer != '\0' ? std::string(outer) + "/" + own : own;
}

// One start of all ranks, to the end of the last one.
class Attempt {
 public:
  Attempt(LauncherParts parts, NodeGroup& nodes, SignalInbox& signals)
      : parts_(parts), nodes_(nodes), signals_(signals), ranks_(parts, [this](const RankEnd& end) { take_end(end); }) {
    signal_watch_ = parts_.loop.watch_readable(signals_.fd(), [this] { take_signals(); });
    news_watch_ = parts_.loop.watch_readable(nodes_.news_fd(), [this] { take_news(); });
  }
  ~Attempt() {
    parts_.loop.forget(signal_watch_);
    parts_.loop.forget(news_watch_);
  }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  void run(const std::vector<RankPlace>& places) {
    ranks_.start(places);
    while (!ranks_.all_ended() || (!outcome_ && !signal_)) {
      parts_.loop.wait(std::min(ranks_.next_deadline(), report_at_, by_time));
      if (report_at_.passed()) report_failure();
      ranks_.act_on_time();
    }
  }
  // What ranks left running does not outlive them.
  void clean_up() {
    const bool was_stopped = ranks_.sent().number != 0;
    const Deadline kill_at = was_stopped ? ranks_.kill_at() : Deadline::after(parts_.plan.grace_after_failure);
    const auto is_urgent = [this] { return stop_was_asked_for(); };
    for (const pid_t pid : end_descendants(parts_.guard.pid(), ranks_.sent(), kill_at, is_urgent)) {
      log_warning("process {} does not end, not even by SIGKILL: it hangs in the kernel", pid);
    }
    ranks_.finish_output();
  }

  std::optional<int> signal() const { return signal_; }
  const NodeGroup::Outcome& outcome() const { return *outcome_; }
  // Empty where the failure that counts happened on this node.
  std::string story_of_other_node() const { return outcome_->story == own_story_ ? "" : outcome_->story; }
  const std::vector<RankEnd>& ends() const { return ranks_.ends(); }

 private:
  static bool by_time(const Deadline& a, const Deadline& b) { return a.at() < b.at(); }

  void take_end(const RankEnd& end) {
    if (end.status.well() || end.was_asked) {
      if (ranks_.all_ended() && !failed_ && !signal_) nodes_.report_well();
      return;
    }
    failed_ = true;
    nodes_.mark_lost(end.rank, end.status.describe());
    const RankEnd* first = first_failure(ranks_.ends());
    const bool is_cause = first->status.signal != 0 || !blames_a_peer(*first);
    if (is_cause || ranks_.all_ended()) {
      report_failure();
    } else if (report_at_.is_never()) {
      report_at_ = Deadline::after(kWaitForCause);
    }
  }

  void report_failure() {
    report_at_ = Deadline::never();
    own_story_ = tell_failure(*first_failure(ranks_.ends()));
    nodes_.report_failure(own_story_);
    ranks_.stop(SIGTERM, parts_.plan.grace_after_failure);
  }

  void take_news() {
    parts_.loop.forget(news_watch_);  // there is one piece of news in an attempt
    outcome_ = nodes_.outcome();
    // After a signal the ranks have longer, to save what they have.
    if (outcome_ && !outcome_->well && !signal_) ranks_.stop(SIGTERM, parts_.plan.grace_after_failure);
  }

  // While nothing else is waited for any more.
  bool stop_was_asked_for() {
    while (const std::optional<int> number = signals_.take()) urgent_ = urgent_ || *number != SIGCHLD;
    return urgent_;
  }

  void take_signals() {
    while (const std::optional<int> number = signals_.take()) {
      if (*number == SIGCHLD) {
        reap_orphans(parts_.guard.pid(), [this](pid_t pid) { return ranks_.is_running(pid); });
        continue;
      }
      const bool again = signal_.has_value();
      if (!again) {
        signal_ = *number;
        nodes_.report_failure(
            fmt::format("the launcher of node {} was told to end by {}", nodes_.node_rank(), signal_name(*number)),
            true);
      }
      ranks_.stop(*number, again ? std::chrono::milliseconds(0) : parts_.plan.grace_after_signal);
    }
  }

  LauncherParts parts_;
  NodeGroup& nodes_;
  SignalInbox& signals_;
  RankGroup ranks_;
  EventLoop::Token signal_watch_ = 0;
  EventLoop::Token news_watch_ = 0;
  bool failed_ = false;
  bool urgent_ = false;
  Deadline report_at_ = Deadline::never();
  std::string own_story_;
  std::optional<int> signal_;
  std::optional<NodeGroup::Outcome> outcome_;
};

std::vector<RankPlace> places_of(const LaunchPlan& plan, const NodeGroup& nodes, const Agreement& agreement,
                                 int attempt, const std::string& mark) {
  std::vector<RankPlace> places;
  for (int local_rank = 0; local_rank < plan.local_ranks; ++local_rank) {
    RankPlace place;
    place.rank = agreement.first_rank + local_rank;
    place.local_rank = local_rank;
    place.world_size = agreement.world_size;
    place.local_world_size = plan.local_ranks;
    place.node_rank = agreement.node_rank;
    place.nodes = plan.nodes;
    place.role = plan.role;
    place.master_addr = plan.master_addr;
    place.master_port = agreement.master_port;
    place.restart_count = attempt;
    place.max_restarts = plan.max_restarts;
    place.run_id = plan.run_id;
    place.store = nodes.store_address();
    place.secret = nodes.secret();
    place.collective_timeout_s = plan.collective_timeout_s;
    place.job_mark = mark;
    places.push_back(place);
  }
  return places;
}

}  // namespace

int run_job(const LaunchPlan& plan) {
  fill_standard_descriptors();
  if (plan.nodes == 1 && plan.master_port != 0) check_port_is_free(plan.master_port);
  const std::string mark = make_job_mark();
  JobFolder folder(plan.run_id, plan.log_dir, plan.wants_log_files());
  SignalInbox signals;
  adopt_orphans();
  OrphanGuard guard(mark, folder.private_path());
  EventLoop loop;
  Console out(loop, STDOUT_FILENO);
  Console err(loop, STDERR_FILENO);
  const LauncherParts parts{plan, loop, out, err, folder, guard};
  if (plan.log_dir.empty() && !folder.log_path().empty())
    err.write("lockstep run: logs in " + folder.log_path() + "\n");
  NodeGroup nodes(plan, folder.socket_path());
  const long killed_before = count_out_of_memory_kills();

  for (int attempt = 0;; ++attempt) {
    const Agreement agreement = nodes.agree(attempt);
    Attempt ranks(parts, nodes, signals);
    ranks.run(places_of(plan, nodes, agreement, attempt, mark));
    const bool well = !ranks.signal() && ranks.outcome().well;
    ranks.clean_up();
    const Deadline shown = Deadline::after(std::chrono::seconds(5));
    out.flush(shown);
    err.flush(shown);
    const bool is_last = ranks.signal() || ranks.outcome().is_final || attempt == plan.max_restarts;
    if (is_last) nodes.leave();
    if (ranks.signal()) return 128 + *ranks.signal();
    if (well) return 0;
    if (is_last) {
      throw failure_report(ranks.ends(), ranks.story_of_other_node(), attempt, folder.log_path(),
                           count_out_of_memory_kills() > killed_before);
    }
    log_warning("{}\n  all ranks are started again: restart {} of {}", ranks.outcome().story, attempt + 1,
                plan.max_restarts);
  }
}

}  // namespace lockstep
