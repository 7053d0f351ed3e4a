// The rules of an elastic job whose ranks survive the loss of others.
#include <fmt/format.h>

#include <algorithm>

#include "lockstep/launch/elastic/coordinator.h"
#include "lockstep/launch/elastic/rules/restart_rules.h"

namespace lockstep {

// Whether the ranks that are left continue by themselves.
bool Coordinator::goes_on() const {
  return state_.phase == Phase::Running &&
         state_.hosts.all([](const Host& host) { return host.lets_others_continue(); }) &&
         state_.hosts.any([](const Host& host) { return host.has_state(); });
}

// A launcher looks now and then whether its ranks have announced that they survive others. So a host may be lost, or
// come, while they do, and the coordinator has not heard of it. Nor of ranks that have joined on a host that had none,
// which matters if nobody else has any.
bool Coordinator::must_ask_before(const HostReport& report) const {
  using Kind = HostReport::Kind;
  if (state_.phase != Phase::Running || state_.asking.whom == Asked::All) return false;
  if (must_ask_all_before(report)) return true;
  if (state_.asking.whom != Asked::Nobody) return false;
  const auto is_it = [&](const Host& host) { return host.entry.id == report.host; };
  const Host* const host = state_.hosts.find(report.host);
  const bool is_member = host != nullptr && host->placed && !host->succeeded && report.host != state_.job.id;
  const bool needs = report.kind == Kind::Bereft || report.kind == Kind::NeedsRank;
  const bool matters = (is_loss(report) && is_member) || (needs && report.generation == state_.generation) ||
                       (report.kind == Kind::Joins && state_.hosts.placed() < state_.job.max_nodes);
  const auto has_ranks = [&](const Host& each) {
    const bool loses_them = is_it(each) && (is_loss(report) || report.kind == Kind::Bereft);
    return !loses_them && each.has_state();
  };
  const bool some_are_left = state_.hosts.any(has_ranks);
  const auto may_survive = [&](const Host& each) {
    const bool is_known = each.survives && (some_are_left || !each.has_no_ranks);
    return each.placed && !is_known && !each.succeeded && !is_it(each);
  };
  return matters && state_.hosts.any(may_survive);
}

// If a silent host is not the only one besides the serving host, others may be silent, too: each is noticed one
// heartbeat later than the one before it, at most. What has been decided about the first of them could not be taken
// back. Nor may a host join while some are silent, and not yet missed: these could take over without having heard of
// it.
bool Coordinator::must_ask_all_before(const HostReport& report) const {
  if (state_.hosts.placed() <= 2) return false;
  if (report.kind == HostReport::Kind::Joins) return state_.hosts.placed() < state_.job.max_nodes;
  const auto is_it = [&](const Host& host) { return host.entry.id == report.host && host.placed; };
  return is_silent_loss(report) && state_.hosts.any(is_it);
}

void Coordinator::ask_before(const HostReport& report, Time now) {
  state_.phase = Phase::Asking;
  state_.asking.whom = must_ask_all_before(report) ? Asked::All : Asked::WhoMaySurvive;
  for (Host& host : state_.hosts) {
    const bool is_known = state_.asking.whom != Asked::All && ((host.survives && !host.has_no_ranks) || host.succeeded);
    host.answered = !host.placed || is_known || host.is_gone || host.entry.id == report.host;
    if (!host.answered) state_.send(host, order_to(HostOrder::Kind::Tell));
  }
  take_while_asking(report, now);
}

// Any report that comes now is an answer. So is the loss of a host that does not answer for keep_alive. Nobody waits
// for the answers of others if so many are silent that they may take over soon, or if the job ends in any case.
void Coordinator::take_while_asking(const HostReport& report, Time now) {
  using Kind = HostReport::Kind;
  Host* const host = state_.hosts.find(report.host);
  if (host != nullptr && (is_loss(report) || report.generation == state_.generation)) {
    host->answered = true;
    if (report.kind == Kind::Answers) {
      host->survives = report.ranks.survive;
      host->has_no_ranks = report.ranks.bereft;
    }
    if (report.kind == Kind::Bereft) host->survives = true;
    if (report.kind == Kind::Survives) host->note_survival();
    // Its ranks hold nobody up, whatever is taken before its loss.
    if (is_loss(report)) host->survives = host->has_no_ranks = true;
  }
  if (report.kind == Kind::Returns) state_.hosts.forget_silence(report.host);
  if (report.kind != Kind::Answers) state_.asking.deferred.push_back(report);
  bool is_decided = ends_the_job(report);
  if (host != nullptr && !host->is_gone && is_silent_loss(report)) {
    state_.give_up(*host, report.text, true, now);
    is_decided = is_decided || state_.may_be_cut_off(now);
  }
  if (is_decided) state_.asking.whom = Asked::All;
  const auto has_answered = [](const Host& each) { return each.answered; };
  if (is_decided || state_.hosts.all(has_answered)) take_held(now);
}

bool Coordinator::ends_the_job(const HostReport& report) const {
  using Kind = HostReport::Kind;
  return report.kind == Kind::Moved || (is_loss(report) && report.host == state_.job.id);
}

// Silence comes before what else has happened: if the others may take over, nobody is told to continue here. Hosts that
// have ended meanwhile cannot take over.
void Coordinator::take_held(Time now) {
  state_.phase = Phase::Running;
  std::vector<HostReport> held = std::exchange(state_.asking.deferred, {});
  if (state_.asking.whom == Asked::All) {
    const auto others = std::stable_partition(held.begin(), held.end(),
                                              [this](const HostReport& report) { return ends_the_job(report); });
    std::stable_partition(others, held.end(), is_silent_loss);
  }
  for (const HostReport& report : held) take(report, now);
  if (state_.phase != Phase::Asking) state_.asking.whom = Asked::Nobody;
}

void Coordinator::go_on_without(const Host& lost, const std::string& what) {
  // The ranks of a host that leaves may still end well.
  if (lost.is_gone) state_.lost.push_back({state_.generation, lost.entry.name, what, lost.members});
  note(what + "; the ranks of the other hosts continue");
  let_in_who_waits();
  restart_rules::end_if_all_succeeded(state_);
}

// The host's launcher lives, and may ask for a process that joins the others.
void Coordinator::bereave(Host& host, const std::string& story, Time now) {
  host.survives = host.has_no_ranks = true;
  if (state_.phase != Phase::Running) return;
  if (!goes_on()) return restart_rules::fail(state_, story, now);
  restart_rules::end_if_all_succeeded(state_);
}

// As a restart does, it uses up one of --max-restarts.
void Coordinator::grant_member(Host& host) {
  HostOrder order = order_to(HostOrder::Kind::Member);
  if (goes_on() && state_.restarts < state_.job.max_restarts) {
    ++state_.restarts;
    order.member = state_.next_member++;
    host.members.push_back(order.member);
  }
  state_.send(host, std::move(order));
}

void Coordinator::let_in(Host& host) {
  host.placed = host.is_member = host.survives = host.has_no_ranks = true;
  host.ready = host.succeeded = false;
  state_.number_processes(host);
  HostOrder order = order_to(HostOrder::Kind::Begin);
  order.world = state_.world();
  order.world.first_member = host.members.front();
  state_.send(host, std::move(order));
  note(fmt::format("host {} joined; its ranks join the running ones", state_.hosts.name_of(host.entry)), host.entry.id);
}

void Coordinator::let_in_who_waits() {
  for (Host& host : state_.hosts) {
    if (!host.placed && state_.hosts.placed() < state_.job.max_nodes) let_in(host);
  }
}

void Coordinator::note(const std::string& text, const std::string& except) {
  HostOrder order = order_to(HostOrder::Kind::Note, text);
  order.world = state_.world();
  for (const Host& host : state_.hosts) {
    if (host.placed && host.entry.id != except) state_.send(host, order);
  }
}

}  // namespace lockstep
