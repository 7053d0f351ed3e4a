// The rules of an elastic job whose coordinator was lost with its host.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "lockstep/launch/elastic/coordinator.h"
#include "lockstep/net/server/wills.h"

namespace lockstep {

void Coordinator::resume(const HostReport& report, Time now) {
  Host host;
  host.entry = report.entry;
  if (phase_ != Phase::Resuming) {
    return send(host, order_to(HostOrder::Kind::Rejoin,
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
  era_ = std::max(era_, report.ranks.era + 1);
  next_member_ = std::max(next_member_, report.ranks.next_member);
  restarts_ = std::max(restarts_, report.restarts);
  worlds_ = std::max(worlds_, report.generation);
  hosts_.add(host);
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
      lost_.push_back({host.generation, host.entry.name, report.text, {report.member}});
      return;
    default:
      return;
  }
}

// Once all hosts are there that may come, or a quorum and the others have had time, the ranks continue, or those of all
// hosts are started again.
void Coordinator::settle_if_complete(Time now) {
  const bool has_quorum = hosts_.resumed() >= takeover_->quorum && hosts_.has_serving();
  const bool had_time = now >= short_since_ + kForTheRest;
  if (!has_quorum && now >= short_since_ + kToMeet) {
    return end(false,
               fmt::format("{}; of the {} that may live {} came, too few to continue without it", takeover_->story,
                           hosts_text(takeover_->hosts), hosts_.resumed()),
               true);
  }
  if (!has_quorum || (hosts_.resumed() < takeover_->hosts && !had_time)) return;
  for (auto host = hosts_.begin(); host != hosts_.end();) {
    if (!host->placed || host->generation == worlds_) {
      ++host;
      continue;
    }
    send(*host, order_to(HostOrder::Kind::Rejoin, takeover_->story));  // it has missed the newest world
    host = hosts_.erase(host);
  }
  phase_ = Phase::Running;
  if (goes_on()) return go_on_from_here();
  // As for any lost host: the user does not want to wait for another one.
  if (job_.min_nodes == job_.max_nodes && job_.max_restarts == 0) return end(false, takeover_->story);
  gather_again(takeover_->story, false, now);
}

// The ranks wait for the word where the store is now, and which of them are to meet there. Hosts without ranks, such as
// one that waits for a place, get one.
void Coordinator::go_on_from_here() {
  HostOrder order = order_to(HostOrder::Kind::GoOn, takeover_->story + "; the ranks of the other hosts continue");
  order.world.generation = worlds_;
  order.world.restarts = restarts_;
  order.world.hosts = hosts_.places();
  order.world.era = era_;
  order.world.next_member = next_member_;
  for (const Host& host : hosts_) {
    if (host.placed) order.members.insert(order.members.end(), host.members.begin(), host.members.end());
  }
  for (const Host& host : hosts_) {
    if (host.placed) send(host, order);
  }
  for (Host& host : hosts_) {
    for (; host.asked > 0; --host.asked) grant_member(host);
  }
  let_in_who_waits();
  end_if_all_succeeded();
}

// This launcher, or one before it at this endpoint, was lost, and the job runs elsewhere, with more than half of its
// hosts. What runs here would write the same files: ranks of a launcher that stood still while it was given up, or of
// hosts that began here before they could be told.
void Coordinator::move_to(const std::string& address) {
  if (phase_ == Phase::Gathering && worlds_ == 0) {
    moved_to_ = address;
    for (const Host& host : hosts_) send(host, order_to(HostOrder::Kind::Move, address));
    hosts_.clear();
    return;
  }
  if (phase_ == Phase::Over) return;
  end(false,
      fmt::format("the job runs elsewhere, and is served at {}: its hosts have lost this one, so the ranks here end",
                  address),
      true);
}

// It may live, behind a link that is down. If the link is up again, and this coordinator continues, it joins again. If
// this one was cut off itself, and has ended, the hosts that it gave up take the rendezvous over: none of them may have
// ended its ranks, or forgotten another host, because of an order that was on its way.
void Coordinator::give_up(Host& host, const std::string& cause, bool is_silent, Time now) {
  send(host, order_to(HostOrder::Kind::Return));
  hosts_.give_up(host, fmt::format("host {} was taken for lost: {}", hosts_.name_of(host.entry), cause), is_silent,
                 now);
}

std::string Coordinator::cause_of_loss(const HostEntry& entry, const std::string& cause) const {
  return fmt::format("host {} was lost: {}", hosts_.name_of(entry), cause);
}

bool Coordinator::is_silent_loss(const HostReport& report) {
  return report.kind == HostReport::Kind::Lost && report.text.compare(0, std::strlen(kNotHeardOf), kNotHeardOf) == 0;
}

void Coordinator::take_back(const std::string& id) {
  if (is_cut_off_) return;
  const auto back = hosts_.take_back(id);
  if (back) send(back->host, order_to(HostOrder::Kind::Rejoin, back->story));
}

}  // namespace lockstep
