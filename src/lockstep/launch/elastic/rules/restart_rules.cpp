#include "lockstep/launch/elastic/rules/restart_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "lockstep/launch/nodes/outcome_signal.h"

namespace lockstep::restart_rules {
namespace {

using Host = JobState::Host;
using Phase = JobState::Phase;
using Time = JobState::Time;

std::string seconds_text(std::chrono::milliseconds time) {
  return fmt::format("{} s", std::chrono::duration<double>(time).count());
}

bool has_running_world(const JobState& state) { return state.phase == Phase::Running || state.phase == Phase::Probing; }

bool is_silent(const Host& host) { return host.placed && !host.answered; }

void report_missing_hosts(JobState& state, Time now) {
  JobState::Gathering& gathering = state.gathering;
  gathering.changed_since_report = gathering.reported_at && now < *gathering.reported_at + state.times.report_interval;
  if (gathering.changed_since_report) return;
  gathering.reported_at = now;
  const int count = state.hosts.count();
  const bool enough = count >= state.job.min_nodes;
  HostOrder order = order_to(HostOrder::Kind::Wait);
  order.text =
      enough
          ? fmt::format("{} of up to {} are here ({}); others have {} to join", count, hosts_text(state.job.max_nodes),
                        state.hosts.names(), seconds_text(state.times.last_call))
          : fmt::format("{} of at least {} here ({}); waiting up to {} for others", count,
                        hosts_text(state.job.min_nodes), state.hosts.names(), seconds_text(state.times.join_timeout));
  const Time until =
      enough ? *gathering.enough_since + state.times.last_call : gathering.short_since + state.times.join_timeout;
  order.time_left = std::chrono::ceil<std::chrono::milliseconds>(std::max(until, now) - now);
  for (const Host& host : state.hosts) state.send(host, order);
}

void begin(JobState& state, Time now) {
  state.phase = Phase::Running;
  state.gathering.short_of_hosts = false;
  state.gathering.enough_since.reset();
  state.gathering.reported_at.reset();
  state.gathering.changed_since_report = false;
  ++state.generation;
  state.era = 0;  // these ranks have lost no store yet
  state.next_member = 0;
  int given = 0;
  for (Host& host : state.hosts) {
    host.placed = host.is_member = given < state.job.max_nodes;
    host.ready = !host.placed;
    host.succeeded = host.survives = host.has_no_ranks = false;
    host.requests = 0;
    if (host.placed) {
      ++given;
      state.number_processes(host);
    } else {
      host.since = now;
      send_wait(state, host);
    }
  }
  HostOrder order = order_to(HostOrder::Kind::Begin);
  order.generation = state.running();
  for (const Host& host : state.hosts) {
    if (host.placed) state.send(host, order);
  }
}

// The rank may have lost its peer because a host was lost, and that does not count as a failure.
void probe_all(JobState& state, const std::string& story, Time now) {
  state.phase = Phase::Probing;
  state.probe = {now, story};
  for (Host& host : state.hosts) {
    host.answered = host.entry.id == state.job.id;  // the serving host is certainly alive
    if (host.placed && !host.answered) state.send(host, order_to(HostOrder::Kind::Probe));
  }
  fail_if_all_answered(state, now);
}

void refuse_who_waited_too_long(JobState& state, Time now) {
  for (auto host = state.hosts.begin(); host != state.hosts.end();) {
    if (host->placed || now < host->since + state.times.join_timeout) {
      ++host;
      continue;
    }
    state.send(*host, order_to(HostOrder::Kind::Refuse,
                               fmt::format("host {} cannot join the job: it had all its {} for {}",
                                           state.hosts.name_of(host->entry), hosts_text(state.job.max_nodes),
                                           seconds_text(state.times.join_timeout)),
                               "start fewer hosts, or raise the maximum of --nnodes"));
    host = state.hosts.erase(host);
  }
}

}  // namespace

void begin_if_complete(JobState& state, Time now) {
  if (state.phase != Phase::Gathering || !state.hosts.has_serving()) return;
  JobState::Gathering& gathering = state.gathering;
  if (state.hosts.count() < state.job.min_nodes) {
    gathering.enough_since.reset();
    return report_missing_hosts(state, now);
  }
  if (!gathering.enough_since) gathering.enough_since = now;
  if (!state.hosts.all_ready()) return;
  const bool calls_last = gathering.short_of_hosts && state.hosts.count() < state.job.max_nodes;
  if (calls_last && now < *gathering.enough_since + state.times.last_call) return report_missing_hosts(state, now);
  begin(state, now);
}

void gather_again(JobState& state, const std::string& why, bool has_time, Time now) {
  state.phase = Phase::Gathering;
  state.gathering.short_of_hosts = state.hosts.count() < state.job.min_nodes;
  state.gathering.short_since = now;
  state.gathering.enough_since.reset();
  for (Host& host : state.hosts) {
    if (!host.placed) continue;
    host.placed = false;
    host.ready = false;
    host.succeeded = false;
    HostOrder order = order_to(HostOrder::Kind::Stop, why);
    order.has_time = has_time;
    state.send(host, std::move(order));
  }
  begin_if_complete(state, now);
}

// With a fixed number of hosts and no restarts, the user does not want to wait for another host.
void gather_without(JobState& state, const std::string& loss, Time now) {
  if (state.job.min_nodes == state.job.max_nodes && state.job.max_restarts == 0) return state.end(false, loss);
  gather_again(state, loss, false, now);
}

void lose_while_gathering(JobState& state, Time now) {
  if (state.hosts.count() < state.job.min_nodes && !state.gathering.short_of_hosts) {
    state.gathering.short_of_hosts = true;
    state.gathering.short_since = now;
  }
  begin_if_complete(state, now);
}

void send_wait(JobState& state, const Host& host) {
  HostOrder order = order_to(
      HostOrder::Kind::Wait,
      fmt::format("the job has all its {} ({}); this host waits up to {} for a place. If it is of another job, that "
                  "needs an endpoint of its own",
                  hosts_text(state.job.max_nodes), state.hosts.names(true), seconds_text(state.times.join_timeout)));
  order.time_left = state.times.join_timeout;
  state.send(host, std::move(order));
}

void take_failure(JobState& state, const HostReport& report, Time now) {
  if (!has_running_world(state)) return;
  if (report.recurs) return state.end(false, report.text);
  if (!report.blames_a_peer) return fail(state, report.text, now);
  if (state.phase == Phase::Running) probe_all(state, report.text, now);
}

void fail(JobState& state, const std::string& story, Time now) {
  const Outcome outcome = Outcome::of_failure(story, state.restarts, state.job.max_restarts);
  if (outcome.is_final) return state.end(false, story);
  ++state.restarts;
  gather_again(state, outcome.story, false, now);
}

void fail_if_all_answered(JobState& state, Time now) {
  if (state.phase == Phase::Probing && !state.hosts.any(is_silent)) fail(state, state.probe.story, now);
}

void end_if_all_succeeded(JobState& state) {
  if (!has_running_world(state)) return;
  const auto needs_nothing = [](const Host& host) { return host.succeeded || host.has_no_ranks || !host.placed; };
  const auto has_result = [](const Host& host) { return host.placed && host.succeeded; };
  if (state.hosts.all(needs_nothing) && state.hosts.any(has_result)) state.end(true, "");
}

// Only the first one: losing it makes all others report again that they are ready.
Host* silent_host(JobState& state, Time now) {
  if (state.phase != Phase::Probing || now < state.probe.since + state.times.probe_timeout) return nullptr;
  const auto silent = std::find_if(state.hosts.begin(), state.hosts.end(), is_silent);
  return silent == state.hosts.end() ? nullptr : &*silent;
}

std::string cause_of_silence(const JobState& state) {
  return fmt::format("it did not answer for {}, and other hosts lost a rank", seconds_text(state.times.probe_timeout));
}

void act_on_time(JobState& state, Time now) {
  JobState::Gathering& gathering = state.gathering;
  const int count = state.hosts.count();
  if (state.phase == Phase::Gathering && gathering.short_of_hosts && count < state.job.min_nodes &&
      now >= gathering.short_since + state.times.join_timeout) {
    return state.end(false, fmt::format("{} of at least {} came within {}: {}", count, hosts_text(state.job.min_nodes),
                                        seconds_text(state.times.join_timeout), state.hosts.names()));
  }
  if (gathering.reported_at && now >= *gathering.reported_at + state.times.report_interval) {
    gathering.changed_since_report = false;  // reported now, or no longer relevant
  }
  begin_if_complete(state, now);
  if (has_running_world(state)) refuse_who_waited_too_long(state, now);
}

std::optional<Time> next_time(const JobState& state) {
  std::optional<Time> next;
  const auto at = [&next](Time time) { next = next ? std::min(*next, time) : time; };
  const JobState::Gathering& gathering = state.gathering;
  if (state.phase == Phase::Probing) at(state.probe.since + state.times.probe_timeout);
  if (state.phase == Phase::Gathering) {
    if (gathering.changed_since_report) at(*gathering.reported_at + state.times.report_interval);
    if (!gathering.enough_since) {
      at(gathering.short_since + state.times.join_timeout);
    } else if (gathering.short_of_hosts && state.hosts.all_ready()) {
      at(*gathering.enough_since + state.times.last_call);
    }
  } else if (has_running_world(state)) {
    for (const Host& host : state.hosts) {
      if (!host.placed) at(host.since + state.times.join_timeout);
    }
  }
  return next;
}

}  // namespace lockstep::restart_rules
