// The rules of an elastic job whose coordinator was lost with its host.
#include <fmt/format.h>

#include <algorithm>

#include "lockstep/launch/elastic/coordinator.h"
#include "lockstep/launch/elastic/rules/restart_rules.h"
#include "lockstep/launch/elastic/rules/survival_rules.h"

namespace lockstep {

void Coordinator::resume(const HostReport& report, Time now) {
  Host host;
  host.entry = report.entry;
  if (state_.phase != Phase::Resuming) {
    return state_.send(host,
                       order_to(HostOrder::Kind::Rejoin,
                                fmt::format("host {} came after the others had begun without it", host.entry.name)));
  }
  host.since = now;
  host.placed = report.runs;
  host.is_member = true;
  host.ready = !report.runs;
  host.generation = report.generation;
  host.survives = report.ranks.survive;
  host.has_no_ranks = report.ranks.bereft;
  host.succeeded = report.ranks.succeeded;
  host.members = report.ranks.members;
  host.requests = report.ranks.requests;
  host.asked = report.ranks.asked;
  state_.era = std::max(state_.era, report.ranks.era + 1);
  state_.next_member = std::max(state_.next_member, report.ranks.next_member);
  state_.restarts = std::max(state_.restarts, report.restarts);
  state_.generation = std::max(state_.generation, report.generation);
  state_.hosts.add(host);
  settle_if_complete(now);
}

// What has happened on the host since it reported that it resumes, or just before.
void Coordinator::take_while_resuming(Host& host, const HostReport& report) {
  if (report.generation != host.generation) return;
  switch (report.kind) {
    case HostReport::Kind::Ready:
      host.placed = false;
      host.ready = true;
      return;
    case HostReport::Kind::Survives:
      return host.note_survival();
    case HostReport::Kind::Bereft:
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
      state_.lost.push_back({host.generation, host.entry.name, report.text, {report.member}});
      return;
    default:
      return;
  }
}

void Coordinator::lose_while_resuming(const Host& lost, Time now) {
  if (lost.generation > 0) --state_.takeover->hosts;
  settle_if_complete(now);
}

// Once all hosts are there that may come, or a quorum and the others have had time, the ranks continue, or those of all
// hosts are started again.
void Coordinator::settle_if_complete(Time now) {
  const bool has_quorum = state_.hosts.resumed() >= state_.takeover->quorum && state_.hosts.has_serving();
  const bool had_time = now >= state_.began + kForTheRest;
  if (!has_quorum && now >= state_.began + kToMeet) {
    return state_.end(false,
                      fmt::format("{}; of the {} that may live {} came, too few to continue without it",
                                  state_.takeover->story, hosts_text(state_.takeover->hosts), state_.hosts.resumed()),
                      true);
  }
  if (!has_quorum || (state_.hosts.resumed() < state_.takeover->hosts && !had_time)) return;
  for (auto host = state_.hosts.begin(); host != state_.hosts.end();) {
    if (!host->placed || host->generation == state_.generation) {
      ++host;
      continue;
    }
    state_.send(*host, order_to(HostOrder::Kind::Rejoin, state_.takeover->story));  // it has missed the newest world
    host = state_.hosts.erase(host);
  }
  state_.phase = Phase::Running;
  if (survival_rules::survive(state_)) return continue_here();
  restart_rules::gather_without(state_, state_.takeover->story, now);
}

Coordinator::Time Coordinator::settle_time() const {
  return state_.began + (state_.hosts.resumed() >= state_.takeover->quorum ? kForTheRest : kToMeet);
}

// The ranks wait for the word where the store is now, and which of them are to meet there. Hosts without ranks, such as
// one that waits for a place, get one.
void Coordinator::continue_here() {
  HostOrder order = order_to(HostOrder::Kind::GoOn, state_.takeover->story + "; the ranks of the other hosts continue");
  order.world = state_.world();
  for (const Host& host : state_.hosts) {
    if (host.placed) order.members.insert(order.members.end(), host.members.begin(), host.members.end());
  }
  for (const Host& host : state_.hosts) {
    if (host.placed) state_.send(host, order);
  }
  for (Host& host : state_.hosts) {
    for (; host.asked > 0; --host.asked) survival_rules::grant_member(state_, host);
  }
  survival_rules::admit_who_waits(state_);
  restart_rules::end_if_all_succeeded(state_);
}

// This launcher, or one before it at this endpoint, was lost, and the job runs elsewhere, with more than half of its
// hosts. What runs here would write the same files: ranks of a launcher that stood still while it was given up, or of
// hosts that began here before they could be told.
void Coordinator::move_to(const std::string& address) {
  if (state_.phase == Phase::Gathering && state_.generation == 0) {
    state_.moved_to = address;
    for (const Host& host : state_.hosts) state_.send(host, order_to(HostOrder::Kind::Move, address));
    state_.hosts.clear();
    return;
  }
  if (state_.phase == Phase::Over) return;
  state_.end(
      false,
      fmt::format("the job runs elsewhere, and is served at {}: its hosts have lost this one, so the ranks here end",
                  address),
      true);
}

void Coordinator::take_back(const std::string& id) {
  if (state_.is_cut_off) return;
  const auto back = state_.hosts.take_back(id);
  if (back) state_.send(back->host, order_to(HostOrder::Kind::Rejoin, back->story));
}

}  // namespace lockstep
