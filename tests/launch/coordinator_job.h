#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/launch/elastic/coordinator.h"
#include "tests/launch/message_kinds.h"

namespace lockstep {

/// A job of hosts "a" (which serves), "b", ...; each reports ready as soon as it is told to stop, unless it is slow,
/// and how its ranks stand as soon as it is asked, unless it is silent.
class CoordinatorJob {
 public:
  CoordinatorJob(int min_hosts, int max_hosts, int max_restarts = 0,
                 const std::optional<Coordinator::Takeover>& takeover = std::nullopt)
      : entry_(entry("a", min_hosts, max_hosts, max_restarts)), coordinator_(entry_, times(), now_, takeover) {
    if (takeover) generation_.number = takeover->generation;
  }

  static HostEntry entry(const std::string& id, int min_hosts, int max_hosts, int max_restarts) {
    HostEntry entry;
    entry.id = id;
    entry.name = "host-" + id;
    entry.min_nodes = min_hosts;
    entry.max_nodes = max_hosts;
    entry.max_restarts = max_restarts;
    entry.run_id = "none";
    entry.version = "1";
    entry.program = "./train";
    entry.program_digest = "11";
    return entry;
  }
  HostEntry like(const std::string& id) const {
    HostEntry entry = entry_;
    entry.id = id;
    entry.name = "host-" + id;
    return entry;
  }

  void join(const HostEntry& entry) {
    HostReport report;
    report.host = entry.id;
    report.entry = entry;
    take(report);
  }
  void join(const std::string& id) { join(like(id)); }
  /// A host of a job whose coordinator was lost. @param runs  it has ranks, of
  /// the generation `generation`
  void resume(const std::string& id, std::int64_t generation, bool runs, int restarts = 0) {
    HostReport report = resumes(id, generation);
    report.runs = runs;
    report.restarts = restarts;
    take(report);
  }
  /// The same with ranks that survive the loss of others.
  void resume_surviving(const std::string& id, std::int64_t generation, HostReport::Ranks ranks) {
    HostReport report = resumes(id, generation);
    report.runs = true;
    report.ranks = std::move(ranks);
    report.ranks.survive = true;
    (report.ranks.has_no_ranks ? without_ranks_ : announced_).insert(id);
    take(report);
  }
  void say(const std::string& host, Report kind, const std::string& text = {}, bool blames = false) {
    say_of(generation_.number, host, kind, text, blames);
  }
  void say_of(std::int64_t generation, const std::string& host, Report kind, const std::string& text = {},
              bool blames = false) {
    HostReport report;
    report.kind = kind;
    report.host = host;
    report.text = text;
    report.blames_a_peer = blames;
    report.generation = generation;
    if (kind == Report::NeedsRank) report.request = ++requests_[host];
    if (kind == Report::HasNoRanks) {
      without_ranks_.insert(host);
      announced_.erase(host);
    }
    if (kind == Report::Survives) announce(host);
    take(report);
  }
  void pass(std::chrono::milliseconds time) {
    now_ += time;
    if (coordinator_.next_time() && *coordinator_.next_time() <= now_) coordinator_.act_on_time(now_);
    collect();
  }
  // The hosts of the running generation, as "abc"; "" if none is running.
  std::string running() const { return runs_ ? hosts() : ""; }
  const Generation& generation() const { return generation_; }
  const HostOrder& last(const std::string& host) { return last_[host]; }
  void take(const HostReport& report) {
    coordinator_.take(report, now_);
    collect();
  }
  /// What a host was told of others since the last call, each with a line's
  /// end.
  std::string notes(const std::string& host) { return std::exchange(notes_[host], {}); }
  /// The processes that were lost, with their hosts or on them, since the last call.
  std::vector<int> lost_members() { return std::exchange(lost_members_, {}); }
  void make_slow(const std::string& host) { slow_ = host; }
  void make_silent(const std::string& host) { silent_.insert(host); }
  /// The host's ranks announce that they survive others, and its launcher has not reported it yet.
  void announce(const std::string& host) { announced_.insert(host); }

  void answer(const std::string& host) {
    HostReport report;
    report.kind = Report::Answers;
    report.host = host;
    report.generation = generation_.number;
    const bool has_announced = announced_.count(host) > 0;
    report.ranks.survive = has_announced || without_ranks_.count(host) > 0;
    report.ranks.has_no_ranks = !has_announced && without_ranks_.count(host) > 0;
    take(report);
  }

 private:
  HostReport resumes(const std::string& id, std::int64_t generation) const {
    HostReport report;
    report.kind = Report::Resumes;
    report.host = id;
    report.entry = like(id);
    report.generation = generation;
    return report;
  }
  static Coordinator::Times times() {
    using std::chrono::seconds;
    return {seconds(60), seconds(30), seconds(2)};
  }
  std::string hosts() const {
    std::string text;
    for (const Generation::Host& host : generation_.hosts) text += host.id;
    return text;
  }
  void collect() {
    for (const Coordinator::LostMembers& lost : coordinator_.take_lost()) {
      lost_members_.insert(lost_members_.end(), lost.members.begin(), lost.members.end());
    }
    for (auto& [host, order] : coordinator_.take_orders()) {
      if (order.kind == Order::Note) {
        notes_[host] += order.text + "\n";
        continue;
      }
      last_[host] = order;
      if (order.kind == Order::Begin && order.generation.first_member < 0) {
        generation_ = order.generation;
        runs_ = true;
      }
      if (order.kind == Order::Begin && order.generation.first_member >= 0) without_ranks_.insert(host);
      if (order.kind == Order::Continue) {
        generation_ = order.generation;
        runs_ = true;
      }
      if (order.kind == Order::Stop || order.kind == Order::End) runs_ = false;
      if (order.kind == Order::Stop && host != slow_) say(host, Report::Ready);
      if (order.kind == Order::Tell && silent_.count(host) == 0) answer(host);
    }
  }

  Coordinator::Time now_{};
  HostEntry entry_;
  Coordinator coordinator_;
  Generation generation_;
  bool runs_ = false;
  std::map<std::string, HostOrder> last_;
  std::map<std::string, std::string> notes_;
  std::vector<int> lost_members_;
  std::map<std::string, int> requests_;  // of hosts, for processes
  std::string slow_;
  std::set<std::string> silent_;
  std::set<std::string> announced_;
  std::set<std::string> without_ranks_;  // unless they have announced it
};

/// Hosts "a", "b" and so on, of one rank each, whose ranks survive.
inline CoordinatorJob surviving(const std::string& hosts, int max_hosts, int max_restarts = 0) {
  CoordinatorJob job(static_cast<int>(hosts.size()), max_hosts, max_restarts);
  for (const char id : hosts) job.join(std::string(1, id));
  job.pass(std::chrono::seconds(30));
  for (const char id : hosts) job.say(std::string(1, id), Report::Survives);
  return job;
}

/// A job whose coordinator was lost, as the host "a" takes it over.
inline CoordinatorJob taken_over(int hosts, int quorum, int max_restarts = 3) {
  Coordinator::Takeover takeover;
  takeover.story = "host host-z is lost";
  takeover.generation = 4;
  takeover.restarts = 1;
  takeover.hosts = hosts;
  takeover.quorum = quorum;
  return {1, 4, max_restarts, takeover};
}

/// A host's ranks that survive others, as it reports them.
inline HostReport::Ranks ranks_of(const std::vector<int>& members, int next_member) {
  HostReport::Ranks ranks;
  ranks.members = members;
  ranks.next_member = next_member;
  return ranks;
}

}  // namespace lockstep
