#include "lockstep/launch/elastic/rules/job_state.h"

#include <fmt/format.h>

namespace lockstep {

JobState::JobState(HostEntry serving, Times limits, Time now, std::optional<Takeover> lost_one)
    : job(std::move(serving)),
      times(limits),
      began(now),
      takeover(std::move(lost_one)),
      phase(takeover ? Phase::Resuming : Phase::Gathering),
      hosts(job) {
  gathering.short_since = now;
  if (!takeover) return;
  generation = takeover->generation;
  restarts = takeover->restarts;
  era = takeover->era;
}

void JobState::end(bool success, const std::string& story, bool runs_elsewhere) {
  phase = Phase::Over;
  HostOrder order = order_to(HostOrder::Kind::End, story);
  order.success = success;
  order.runs_elsewhere = runs_elsewhere;
  for (const Host& host : hosts) send(host, order);
}

void JobState::give_up(Host& host, const std::string& cause, bool is_silent, Time now) {
  send(host, order_to(HostOrder::Kind::Return));
  hosts.give_up(host, fmt::format("host {} was taken for lost: {}", hosts.name_of(host.entry), cause), is_silent, now);
}

void JobState::number_processes(Host& host) {
  host.members.clear();
  for (int i = 0; i < host.entry.local_ranks; ++i) host.members.push_back(next_member++);
}

Generation JobState::running() const {
  Generation running;
  running.number = generation;
  running.restarts = restarts;
  running.hosts = hosts.places();
  running.era = era;
  running.next_member = next_member;
  return running;
}

}  // namespace lockstep
