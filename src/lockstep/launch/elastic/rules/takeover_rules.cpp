#include "lockstep/launch/elastic/rules/takeover_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "lockstep/launch/elastic/rules/restart_rules.h"
#include "lockstep/launch/elastic/rules/survival_rules.h"

namespace lockstep::takeover_rules {
namespace {

using Host = JobState::Host;
using Phase = JobState::Phase;
using Time = JobState::Time;

// For those that a quorum does not need. Hosts notice a silent server up to one heartbeat (3 s at most) after each
// other, look for up to 2 s whether it has ended, and connect within 1 s.
constexpr std::chrono::seconds kForTheRest{6};
constexpr std::chrono::seconds kToMeet{10};

// The ranks wait for the word where the store is now, and which of them are to meet there. Hosts without ranks, such as
// one that waits for a place, get one.
void continue_here(JobState& state) {
  HostOrder order =
      order_to(HostOrder::Kind::Continue, state.takeover->story + "; the ranks of the other hosts continue");
  order.generation = state.running();
  for (const Host& host : state.hosts) {
    if (host.placed) order.members.insert(order.members.end(), host.members.begin(), host.members.end());
  }
  for (const Host& host : state.hosts) {
    if (host.placed) state.send(host, order);
  }
  for (Host& host : state.hosts) {
    for (; host.asked > 0; --host.asked) survival_rules::grant_member(state, host);
  }
  survival_rules::admit_who_waits(state);
  restart_rules::end_if_all_succeeded(state);
}

void send_back_who_missed_the_newest_world(JobState& state) {
  for (auto host = state.hosts.begin(); host != state.hosts.end();) {
    if (!host->placed || host->generation == state.generation) {
      ++host;
      continue;
    }
    state.send(*host, order_to(HostOrder::Kind::Rejoin, state.takeover->story));
    host = state.hosts.erase(host);
  }
}

}  // namespace

void resume(JobState& state, const HostReport& report, Time now) {
  Host host;
  host.entry = report.entry;
  if (state.phase != Phase::Resuming) {
    return state.send(host,
                      order_to(HostOrder::Kind::Rejoin,
                               fmt::format("host {} came after the others had begun without it", host.entry.name)));
  }
  host.since = now;
  host.placed = report.runs;
  host.is_member = true;
  host.ready = !report.runs;
  host.generation = report.generation;
  host.survives = report.ranks.survive;
  host.has_no_ranks = report.ranks.has_no_ranks;
  host.succeeded = report.ranks.succeeded;
  host.members = report.ranks.members;
  host.requests = report.ranks.requests;
  host.asked = report.ranks.asked;
  state.era = std::max(state.era, report.ranks.era + 1);
  state.next_member = std::max(state.next_member, report.ranks.next_member);
  state.restarts = std::max(state.restarts, report.restarts);
  state.generation = std::max(state.generation, report.generation);
  state.hosts.add(std::move(host));
  settle_if_complete(state, now);
}

void take_while_resuming(JobState& state, Host& host, const HostReport& report) {
  if (report.generation != host.generation) return;
  switch (report.kind) {
    case HostReport::Kind::Ready:
      host.placed = false;
      host.ready = true;
      return;
    case HostReport::Kind::Survives:
      return host.note_survival();
    case HostReport::Kind::HasNoRanks:
      host.has_no_ranks = true;
      return;
    case HostReport::Kind::Succeeded:
      host.succeeded = true;
      return;
    case HostReport::Kind::Failed:
      host.survives = false;
      return;
    case HostReport::Kind::NeedsRank:
      if (host.note_request(report.request)) ++host.asked;
      return;
    case HostReport::Kind::Gone:
      state.lost.push_back({host.generation, host.entry.name, report.text, {report.member}});
      return;
    default:
      return;
  }
}

void lose_while_resuming(JobState& state, const Host& lost, Time now) {
  if (lost.generation > 0) --state.takeover->hosts;
  settle_if_complete(state, now);
}

void settle_if_complete(JobState& state, Time now) {
  const JobState::Takeover& takeover = *state.takeover;
  const int resumed = state.hosts.resumed();
  const bool has_quorum = resumed >= takeover.quorum && state.hosts.has_serving();
  const bool had_time = now >= state.began + kForTheRest;
  if (!has_quorum && now >= state.began + kToMeet) {
    return state.end(false,
                     fmt::format("{}; of the {} that may live {} came, too few to continue without it", takeover.story,
                                 hosts_text(takeover.hosts), resumed),
                     true);
  }
  if (!has_quorum || (resumed < takeover.hosts && !had_time)) return;
  send_back_who_missed_the_newest_world(state);
  state.phase = Phase::Running;
  if (survival_rules::survive(state)) return continue_here(state);
  restart_rules::gather_without(state, takeover.story, now);
}

Time next_time(const JobState& state) {
  return state.began + (state.hosts.resumed() >= state.takeover->quorum ? kForTheRest : kToMeet);
}

void move_to(JobState& state, const std::string& address) {
  if (state.phase == Phase::Gathering && state.generation == 0) {
    state.moved_to = address;
    for (const Host& host : state.hosts) state.send(host, order_to(HostOrder::Kind::Move, address));
    return state.hosts.clear();
  }
  if (state.phase == Phase::Over) return;
  state.end(
      false,
      fmt::format("the job runs elsewhere, and is served at {}: its hosts have lost this one, so the ranks here end",
                  address),
      true);
}

void take_back(JobState& state, const std::string& id) {
  if (state.is_cut_off) return;
  const auto back = state.hosts.take_back(id);
  if (back) state.send(back->host, order_to(HostOrder::Kind::Rejoin, back->story));
}

}  // namespace lockstep::takeover_rules
