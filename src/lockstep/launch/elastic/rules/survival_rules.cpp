#include "lockstep/launch/elastic/rules/survival_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lockstep/launch/elastic/rules/restart_rules.h"

namespace lockstep::survival_rules {
namespace {

using Host = JobState::Host;
using ReportKind = HostReport::Kind;
using Phase = JobState::Phase;
using Time = JobState::Time;
using Whom = JobState::Asking::Whom;

// If a silent host is not the only one besides the serving host, others may be silent, too: each is noticed one
// heartbeat later than the one before it, at most. What has been decided about the first of them could not be taken
// back. Nor may a host join while some are silent, and not yet missed: these could take over without having heard of
// it.
bool must_ask_all_before(const JobState& state, const HostReport& report) {
  if (state.hosts.placed() <= 2) return false;
  if (report.kind == ReportKind::Joins) return state.hosts.placed() < state.job.max_nodes;
  const Host* const host = state.hosts.find(report.host);
  return is_silent_loss(report) && host != nullptr && host->placed;
}

// The job ends whatever the hosts answer.
bool ends_the_job(const JobState& state, const HostReport& report) {
  return report.kind == ReportKind::Moved || (is_loss(report) && report.host == state.job.id);
}

void note_answer(Host& host, const HostReport& report) {
  host.answered = true;
  if (report.kind == ReportKind::Answers) {
    host.survives = report.ranks.survive;
    host.has_no_ranks = report.ranks.has_no_ranks;
  }
  if (report.kind == ReportKind::HasNoRanks) host.survives = true;
  if (report.kind == ReportKind::Survives) host.note_survival();
  // Its ranks hold nobody up, whatever is taken before its loss.
  if (is_loss(report)) host.survives = host.has_no_ranks = true;
}

void send_note(JobState& state, const std::string& text, const std::string& except = {}) {
  HostOrder order = order_to(HostOrder::Kind::Note, text);
  order.generation = state.running();
  for (const Host& host : state.hosts) {
    if (host.placed && host.entry.id != except) state.send(host, order);
  }
}

}  // namespace

bool survive(const JobState& state) {
  return state.phase == Phase::Running &&
         state.hosts.all([](const Host& host) { return host.lets_others_continue(); }) &&
         state.hosts.any([](const Host& host) { return host.has_state(); });
}

// A launcher looks now and then whether its ranks have announced that they survive others. So a host may be lost, or
// come, while they do, and the coordinator has not heard of it. Nor of ranks that have joined on a host that had none,
// which matters if nobody else has any.
bool must_ask_before(const JobState& state, const HostReport& report) {
  if (state.phase != Phase::Running || state.asking.whom == Whom::All) return false;
  if (must_ask_all_before(state, report)) return true;
  if (state.asking.whom != Whom::Nobody) return false;
  const auto is_it = [&](const Host& host) { return host.entry.id == report.host; };
  const Host* const host = state.hosts.find(report.host);
  const bool is_member = host != nullptr && host->placed && !host->succeeded && report.host != state.job.id;
  const bool needs = report.kind == ReportKind::HasNoRanks || report.kind == ReportKind::NeedsRank;
  const bool matters = (is_loss(report) && is_member) || (needs && report.generation == state.generation) ||
                       (report.kind == ReportKind::Joins && state.hosts.placed() < state.job.max_nodes);
  const auto has_ranks = [&](const Host& each) {
    const bool loses_them = is_it(each) && (is_loss(report) || report.kind == ReportKind::HasNoRanks);
    return !loses_them && each.has_state();
  };
  const bool some_are_left = state.hosts.any(has_ranks);
  const auto may_survive = [&](const Host& each) {
    const bool is_known = each.survives && (some_are_left || !each.has_no_ranks);
    return each.placed && !is_known && !each.succeeded && !is_it(each);
  };
  return matters && state.hosts.any(may_survive);
}

void ask_before(JobState& state, const HostReport& report) {
  state.phase = Phase::Asking;
  state.asking.whom = must_ask_all_before(state, report) ? Whom::All : Whom::WhoMaySurvive;
  for (Host& host : state.hosts) {
    const bool is_known = state.asking.whom != Whom::All && ((host.survives && !host.has_no_ranks) || host.succeeded);
    host.answered = !host.placed || is_known || host.is_gone || host.entry.id == report.host;
    if (!host.answered) state.send(host, order_to(HostOrder::Kind::Tell));
  }
}

// Any report that comes now is an answer. So is the loss of a host that does not answer for keep_alive. Nobody waits
// for the answers of others if so many are silent that they may take over soon, or if the job ends in any case.
bool defer(JobState& state, const HostReport& report, Time now) {
  Host* const host = state.hosts.find(report.host);
  const bool is_of_now = is_loss(report) || report.generation == state.generation;
  if (host != nullptr && is_of_now) note_answer(*host, report);
  if (report.kind == ReportKind::Returns) state.hosts.forget_silence(report.host);
  if (report.kind != ReportKind::Answers) state.asking.deferred.push_back(report);
  bool is_decided = ends_the_job(state, report);
  if (host != nullptr && !host->is_gone && is_silent_loss(report)) {
    state.give_up(*host, report.text, true, now);
    is_decided = is_decided || state.may_be_cut_off(now);
  }
  if (is_decided) state.asking.whom = Whom::All;
  return is_decided || state.hosts.all([](const Host& each) { return each.answered; });
}

// Silence comes before what else has happened: if the others may take over, nobody is told to continue here. Hosts that
// have ended meanwhile cannot take over.
std::vector<HostReport> take_deferred(JobState& state) {
  state.phase = Phase::Running;
  std::vector<HostReport> deferred = std::exchange(state.asking.deferred, {});
  if (state.asking.whom == Whom::All) {
    const auto others = std::stable_partition(deferred.begin(), deferred.end(),
                                              [&](const HostReport& report) { return ends_the_job(state, report); });
    std::stable_partition(others, deferred.end(), is_silent_loss);
  }
  return deferred;
}

void continue_without(JobState& state, const Host& lost, const std::string& loss) {
  // The ranks of a host that leaves may still end well.
  if (lost.is_gone) state.lost.push_back({state.generation, lost.entry.name, loss, lost.members});
  send_note(state, loss + "; the ranks of the other hosts continue");
  admit_who_waits(state);
  restart_rules::end_if_all_succeeded(state);
}

// The host's launcher lives, and may ask for a process that joins the others.
void lose_ranks(JobState& state, Host& host, const std::string& story, Time now) {
  host.survives = host.has_no_ranks = true;
  if (state.phase != Phase::Running) return;
  if (!survive(state)) return restart_rules::fail(state, story, now);
  restart_rules::end_if_all_succeeded(state);
}

// As a restart does, it uses up one of --max-restarts.
void grant_member(JobState& state, Host& host) {
  HostOrder order = order_to(HostOrder::Kind::Member);
  if (survive(state) && state.restarts < state.job.max_restarts) {
    ++state.restarts;
    order.member = state.next_member++;
    host.members.push_back(order.member);
  }
  state.send(host, std::move(order));
}

void admit_host(JobState& state, Host& host) {
  host.placed = host.is_member = host.survives = host.has_no_ranks = true;
  host.ready = host.succeeded = false;
  state.number_processes(host);
  HostOrder order = order_to(HostOrder::Kind::Begin);
  order.generation = state.running();
  order.generation.first_member = host.members.front();
  state.send(host, std::move(order));
  send_note(state, fmt::format("host {} joined; its ranks join the running ones", state.hosts.name_of(host.entry)),
            host.entry.id);
}

void admit_who_waits(JobState& state) {
  for (Host& host : state.hosts) {
    if (!host.placed && state.hosts.placed() < state.job.max_nodes) admit_host(state, host);
  }
}

}  // namespace lockstep::survival_rules
