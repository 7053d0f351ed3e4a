// The rules of an elastic job that depend on time.
#include <fmt/format.h>

#include <algorithm>

#include "lockstep/launch/elastic/coordinator.h"

namespace lockstep {

void Coordinator::act_on_time(Time now) {
  if (phase_ == Phase::InDoubt && now >= probed_ + rules_.probe_timeout) {
    // Only the first one: losing it makes all others report again that they are ready.
    for (Host& host : hosts_) {
      if (!host.placed || host.answered) continue;
      const std::string cause =
          fmt::format("it did not answer for {}, and other hosts lost a rank", seconds(rules_.probe_timeout));
      give_up(host, cause, true, now);
      return lose(host.entry.id, cause_of_loss(host.entry, cause), now);
    }
  }
  if (phase_ == Phase::Resuming) return settle_if_complete(now);
  if (phase_ == Phase::Gathering && short_of_hosts_ && hosts_.count() < job_.min_nodes &&
      now >= short_since_ + rules_.join_timeout) {
    return end(false, fmt::format("{} of at least {} came within {}: {}", hosts_.count(), hosts_text(job_.min_nodes),
                                  seconds(rules_.join_timeout), hosts_.names()));
  }
  if (reported_at_ && now >= *reported_at_ + rules_.report_interval)
    changed_since_report_ = false;  // reported now, or no longer relevant
  begin_if_complete(now);
  if (phase_ == Phase::Running || phase_ == Phase::InDoubt) {
    for (auto host = hosts_.begin(); host != hosts_.end();) {
      if (host->placed || now < host->since + rules_.join_timeout) {
        ++host;
        continue;
      }
      send(*host,
           order_to(HostOrder::Kind::Refuse,
                    fmt::format("host {} cannot join the job: it had all its {} for {}", hosts_.name_of(host->entry),
                                hosts_text(job_.max_nodes), seconds(rules_.join_timeout)),
                    "start fewer hosts, or raise the maximum of --nnodes"));
      host = hosts_.erase(host);
    }
  }
}

void Coordinator::send_wait(const Host& host) {
  HostOrder order = order_to(HostOrder::Kind::Wait,
                             fmt::format("the job has all its {} ({}); this host waits up to {} for a place. If it is "
                                         "of another job, that needs an endpoint of its own",
                                         hosts_text(job_.max_nodes), hosts_.names(true), seconds(rules_.join_timeout)));
  order.time_left = rules_.join_timeout;
  send(host, std::move(order));
}

std::optional<Coordinator::Time> Coordinator::next_time() const {
  std::optional<Time> next;
  const auto at = [&next](Time time) { next = next ? std::min(*next, time) : time; };
  if (phase_ == Phase::InDoubt) at(probed_ + rules_.probe_timeout);
  if (phase_ == Phase::Resuming) {
    at(short_since_ + (hosts_.resumed() >= takeover_->quorum ? kForTheRest : kToMeet));
  } else if (phase_ == Phase::Gathering) {
    if (changed_since_report_) at(*reported_at_ + rules_.report_interval);
    if (enough_since_) {
      if (short_of_hosts_ && hosts_.all_ready()) at(*enough_since_ + rules_.last_call);
    } else {
      at(short_since_ + rules_.join_timeout);
    }
  } else if (phase_ == Phase::Running || phase_ == Phase::InDoubt) {
    for (const Host& host : hosts_) {
      if (!host.placed) at(host.since + rules_.join_timeout);
    }
  }
  return next;
}

}  // namespace lockstep
