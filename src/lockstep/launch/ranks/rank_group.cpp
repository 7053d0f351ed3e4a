#include "lockstep/launch/ranks/rank_group.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <map>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/launch/ranks/group_rank.h"
#include "lockstep/launch/ranks/last_words.h"
#include "lockstep/launch/ranks/rank_warnings.h"
#include "lockstep/launch/ranks/written_cause.h"
#include "lockstep/start/start_variables.h"

namespace lockstep {
namespace {

constexpr std::size_t kLastLines = 20;

// True if the process runs, or has ended and waits for `take_end`; `info` tells which.
bool look_at(const ChildProcess& process, siginfo_t& info, int flags) {
  info = siginfo_t{};
  return ::waitid(P_PIDFD, static_cast<id_t>(process.pidfd.get()), &info, WEXITED | WNOHANG | flags) == 0;
}

}  // namespace

RankGroup::RankGroup(LauncherParts parts, std::function<void(const RankEnd&)> on_end, std::function<void()> on_survival)
    : parts_(parts), on_end_(std::move(on_end)), announcements_(ranks_, std::move(on_survival)) {
  parts_.out.set_on_room([this] { resume_output(); });
  parts_.err.set_on_room([this] { resume_output(); });
}

RankGroup::~RankGroup() {
  parts_.out.set_on_room(nullptr);
  parts_.err.set_on_room(nullptr);
  signal_all(SIGKILL);
  for (const auto& rank : ranks_) {
    if (!rank->ended && rank->process.pid > 0) ::waitpid(rank->process.pid, nullptr, 0);
    parts_.loop.forget(rank->watch);
  }
}

void RankGroup::start(const std::vector<RankPlace>& places) {
  const NodeCores node = node_cores();
  for (const RankPlace& place : places) start_rank(place, node);
  for (const auto& rank : ranks_) {
    try {
      confirm_start(rank->process, rank->command);
    } catch (const Error&) {
      rank->ended = true;
      throw;
    }
  }
  if (parts_.plan.warm_spares && parts_.plan.may_start_again(places.front().restart_count))
    prepare_at_ = Deadline::after(kSpareDelay);
  announcements_.look_soon();
}

GroupRank& RankGroup::that_ended(const RankEnd& end) const {
  const auto is_it = [&](const auto& each) { return each->process.pid == end.pid && each->ended; };
  return **std::find_if(ranks_.rbegin(), ranks_.rend(), is_it);
}

void RankGroup::replace(const RankEnd& lost, int member) {
  GroupRank& ended = that_ended(lost);
  RankPlace place = ended.place;
  place.member = member;
  GroupRank& rank = start_rank(place, node_cores());
  try {
    confirm_start(rank.process, rank.command);
  } catch (const Error&) {
    rank.ended = true;
    --running_;
    parts_.loop.forget(std::exchange(rank.watch, 0));
    throw;
  }
  ended.command = ChildCommand{};  // the environment is large, and the new process has its own
  announcements_.look_soon();
  if (parts_.plan.warm_spares) prepare_at_ = Deadline::after(kSpareDelay);
}

void RankGroup::prepare_spares() {
  prepare_at_ = Deadline::never();
  std::map<int, ChildCommand> commands;
  for (const auto& rank : ranks_) commands[rank->place.local_rank] = rank->command;
  parts_.spares.prepare(std::move(commands));
}

GroupRank& RankGroup::start_rank(const RankPlace& place, const NodeCores& node) {
  ranks_.push_back(std::make_unique<GroupRank>());
  GroupRank& rank = *ranks_.back();
  rank.place = place;
  rank.is_member = place.member < 0;
  const std::string folder = parts_.folder.rank_path(place.generation, place.local_rank, place.member);
  rank.place.error_file = folder + "/error.json";
  rank.place.survival_file = folder + "/survives";

  rank.command.arguments = with_local_rank(parts_.plan.command, place.local_rank);
  Variables variables = rank_variables(rank.place);
  const int threads = std::max(1, node.threads / place.local_world_size);
  for (auto& variable : variables_for_rank(threads, place.local_world_size)) variables.push_back(std::move(variable));
  rank.command.environment = merged_environment(own_environment(), variables);
  if (place.memory >= 0) rank.command.kept.push_back(place.memory);
  rank.command.cores = share_cores(parts_.plan.affinity, node, place.local_world_size)[rank.index()];
  rank.command.out = rank.connect_stdout(parts_, folder);
  rank.command.err = rank.connect_stderr(parts_, folder);

  rank.ended = true;  // until it has started
  auto spare = parts_.spares.release(place.local_rank, rank.command);
  rank.process = spare ? std::move(*spare) : start_child(rank.command);
  rank.ended = false;
  rank.ready_by = Deadline::after(kUntilWarningsAreHandled);
  ++running_;
  if (!spare) parts_.guard.add_group(rank.process.pid);
  rank.watch = parts_.loop.watch_readable(rank.process.pidfd.get(), [this, &rank] { take_end(rank); });
  rank.each_stream([](OutputStream& stream) { stream.close_write_end(); });
  rank.out_file.reset();
  rank.err_file.reset();
  return rank;
}

Deadline RankGroup::next_deadline() const {
  const auto by_time = [](const Deadline& a, const Deadline& b) { return a.at() < b.at(); };
  return std::min({act_at_, prepare_at_, announcements_.next_look(), warn_at_}, by_time);
}

void RankGroup::take_end(GroupRank& rank) {
  siginfo_t info{};
  if (!look_at(rank.process, info, 0) || info.si_pid == 0) return;
  rank.ended = true;
  --running_;
  parts_.loop.forget(std::exchange(rank.watch, 0));
  rank.process.pidfd.reset();  // a job may lose any number of ranks
  rank.each_stream([](OutputStream& stream) { stream.drain(); });
  RankEnd end;
  end.rank = rank.place.rank;
  end.local_rank = rank.place.local_rank;
  end.pid = rank.process.pid;
  end.status = exit_status_of(info);
  end.member = rank.place.member < 0 ? rank.place.rank : rank.place.member;
  end.was_member = rank.is_member || rank.has_announced_survival();
  end.was_asked = rank.was_asked;
  end.warned_by = rank.warned_by;
  end.last_lines = last_words(rank.tail(), kLastLines);
  end.error = read_error_file(rank.place.error_file, rank.process.pid);
  if (!end.error.is_known && end.error.message.empty()) end.error.cause = cause_in_text(end.last_lines);
  ends_.push_back(end);
  announcements_.take_notice();  // whether the others survive this end depends on who has joined them
  on_end_(ends_.back());
}

void RankGroup::signal_all(int signal) {
  for (const auto& rank : ranks_) {
    if (!rank->ended) ::kill(-rank->process.pid, signal);
  }
}

// A rank that has ended already ended by itself, although the event loop has not seen its end yet.
void RankGroup::note_who_is_asked() {
  for (const auto& rank : ranks_) {
    siginfo_t info{};
    rank->was_asked = !rank->ended && look_at(rank->process, info, WNOWAIT) && info.si_pid == 0;
  }
}

void RankGroup::stop(int signal, std::chrono::milliseconds grace) {
  if (!stopping_) {
    note_who_is_asked();
    sent_.number = signal;
    for (const auto& rank : ranks_) {
      if (!rank->ended) sent_.groups.insert(rank->process.pid);
    }
    signal_all(signal);
  } else if (signal != sent_.number) {
    signal_all(signal);
  }
  stopping_ = true;
  warn_at_ = Deadline::never();
  prepare_at_ = Deadline::never();
  const Deadline by = Deadline::after(grace);
  if (by.at() < kill_at_.at()) act_at_ = kill_at_ = by;
  act_on_time();
}

void RankGroup::act_on_time() {
  if (prepare_at_.passed()) prepare_spares();
  if (announcements_.next_look().passed()) announcements_.look();
  if (warn_at_.passed()) warn_at_ = pass_on_warnings(ranks_);
  if (!act_at_.passed()) return;
  signal_all(SIGKILL);
  // Soon again: a process may have joined the group in between.
  act_at_ = all_ended() ? Deadline::never() : Deadline::after(std::chrono::milliseconds(100));
}

int RankGroup::joined_members() const {
  return static_cast<int>(std::count_if(ranks_.begin(), ranks_.end(),
                                        [](const auto& rank) { return rank->place.member >= 0 && rank->is_member; }));
}

bool RankGroup::a_member_succeeded() const {
  return std::any_of(ends_.begin(), ends_.end(),
                     [](const RankEnd& end) { return end.was_member && end.status.success(); });
}

std::vector<std::string> RankGroup::survival_files() const {
  std::vector<std::string> files;
  for (const auto& rank : ranks_) {
    if (!rank->ended) files.push_back(rank->place.survival_file);
  }
  return files;
}

bool RankGroup::last_announced_survival() const {
  const GroupRank& rank = that_ended(ends_.back());
  return !rank.is_member || rank.has_announced_survival();
}

bool RankGroup::is_running(pid_t pid) const {
  for (const auto& rank : ranks_) {
    if (rank->process.pid == pid && !rank->ended) return true;
  }
  return false;
}

bool RankGroup::is_running_rank(int rank) const {
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [rank](const auto& each) { return each->place.rank == rank && !each->ended; });
}

void RankGroup::resume_output() {
  for (const auto& rank : ranks_) rank->each_stream([](OutputStream& stream) { stream.resume(); });
}

void RankGroup::finish_output() {
  for (const auto& rank : ranks_) {
    rank->each_stream([](OutputStream& stream) { stream.finish(); });
    parts_.guard.remove_group(rank->process.pid);
  }
}

}  // namespace lockstep
