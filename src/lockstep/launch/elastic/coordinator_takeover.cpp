// The rules of an elastic job whose coordinator was lost with its host.
#include <fmt/format.h>

#include <algorithm>

#include "lockstep/launch/elastic/coordinator.h"

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
  host.ready = !report.runs;
  host.generation = report.generation;
  restarts_ = std::max(restarts_, report.restarts);
  worlds_ = std::max(worlds_, report.generation);
  hosts_.insert(host.entry.id == job_.id ? hosts_.begin() : hosts_.end(), host);
  settle_if_complete(now);
}

// Once all hosts are there that may come, or a quorum and the others have had time, the ranks of all are started again.
void Coordinator::settle_if_complete(Time now) {
  const bool has_quorum = resumed() >= takeover_->quorum && find(job_.id) != nullptr;
  const bool had_time = now >= short_since_ + kForTheRest;
  if (!has_quorum && now >= short_since_ + kToMeet) {
    return end(false, fmt::format("{}; of the {} that may live {} came, too few to continue without it",
                                  takeover_->story, hosts_text(takeover_->hosts), resumed()));
  }
  if (!has_quorum || (resumed() < takeover_->hosts && !had_time)) return;
  for (auto host = hosts_.begin(); host != hosts_.end();) {
    const auto each = host++;
    if (!each->placed || each->generation == worlds_) continue;
    send(*each, order_to(HostOrder::Kind::Rejoin,
                         takeover_->story));  // it has missed the newest world
    hosts_.erase(each);
  }
  // As for any lost host: the user does not want to wait for another one.
  if (job_.min_nodes == job_.max_nodes && job_.max_restarts == 0) return end(false, takeover_->story);
  gather_again(takeover_->story, false, now);
}

// This launcher, or one before it at this endpoint, was lost, and the job runs elsewhere. Hosts that have begun here
// have not found it in time: they are a job of their own.
void Coordinator::move_to(const std::string& address) {
  if (phase_ == Phase::Gathering && worlds_ == 0) {
    moved_to_ = address;
    for (const Host& host : hosts_) send(host, order_to(HostOrder::Kind::Move, address));
    hosts_.clear();
    return;
  }
  note("another part of this job runs, served at " + address + ": end one of the two");
}

// Those that were in the job; others may have come to join it.
int Coordinator::resumed() const {
  return static_cast<int>(
      std::count_if(hosts_.begin(), hosts_.end(), [](const Host& host) { return host.generation > 0; }));
}

// Hosts that are silent for each other may be cut off from each other: only one part may continue. More than half of
// the hosts take the rendezvous over; half of them, if the serving host is among them, keep it.
bool Coordinator::may_be_cut_off(Time now) {
  silent_.push_back(now);
  const auto is_old = [&](Time at) { return at + 2 * rules_.keep_alive < now; };
  silent_.erase(std::remove_if(silent_.begin(), silent_.end(), is_old), silent_.end());
  return count() < static_cast<int>(silent_.size());
}

}  // namespace lockstep
