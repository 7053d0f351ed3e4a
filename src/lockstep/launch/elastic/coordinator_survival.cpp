// The rules of an elastic job whose ranks survive the loss of others.
#include <fmt/format.h>

#include <algorithm>

#include "lockstep/launch/elastic/coordinator.h"

namespace lockstep {

// Whether the ranks that are left continue by themselves.
bool Coordinator::goes_on() const {
  return phase_ == Phase::Running && hosts_.all([](const Host& host) { return host.lets_others_continue(); }) &&
         hosts_.any([](const Host& host) { return host.has_state(); });
}

// A launcher looks now and then whether its ranks have announced that they survive others. So a host may be lost, or
// come, while they do, and the coordinator has not heard of it. Nor of ranks that have joined on a host that had none,
// which matters if nobody else has any.
bool Coordinator::must_ask_before(const HostReport& report) const {
  using Kind = HostReport::Kind;
  if (phase_ != Phase::Running || asked_ == Asked::All) return false;
  if (must_ask_all_before(report)) return true;
  if (asked_ != Asked::Nobody) return false;
  const auto is_it = [&](const Host& host) { return host.entry.id == report.host; };
  const Host* const host = hosts_.find(report.host);
  const bool is_member = host != nullptr && host->placed && !host->succeeded && report.host != job_.id;
  const bool is_loss = report.kind == Kind::Lost || report.kind == Kind::Leaves;
  const bool needs = report.kind == Kind::Bereft || report.kind == Kind::NeedsRank;
  const bool matters = (is_loss && is_member) || (needs && report.generation == worlds_) ||
                       (report.kind == Kind::Joins && hosts_.placed() < job_.max_nodes);
  const auto has_ranks = [&](const Host& each) {
    const bool loses_them = is_it(each) && (is_loss || report.kind == Kind::Bereft);
    return !loses_them && each.has_state();
  };
  const bool some_are_left = hosts_.any(has_ranks);
  const auto may_survive = [&](const Host& each) {
    const bool is_known = each.survives && (some_are_left || !each.has_no_ranks);
    return each.placed && !is_known && !each.succeeded && !is_it(each);
  };
  return matters && hosts_.any(may_survive);
}

// If a silent host is not the only one besides the serving host, others may be silent, too: each is noticed one
// heartbeat later than the one before it, at most. What has been decided about the first of them could not be taken
// back. Nor may a host join while some are silent, and not yet missed: these could take over without having heard of
// it.
bool Coordinator::must_ask_all_before(const HostReport& report) const {
  if (hosts_.placed() <= 2) return false;
  if (report.kind == HostReport::Kind::Joins) return hosts_.placed() < job_.max_nodes;
  const auto is_it = [&](const Host& host) { return host.entry.id == report.host && host.placed; };
  return is_silent_loss(report) && hosts_.any(is_it);
}

void Coordinator::ask_before(const HostReport& report, Time now) {
  phase_ = Phase::Asking;
  asked_ = must_ask_all_before(report) ? Asked::All : Asked::WhoMaySurvive;
  for (Host& host : hosts_) {
    const bool is_known = asked_ != Asked::All && ((host.survives && !host.has_no_ranks) || host.succeeded);
    host.answered = !host.placed || is_known || host.is_gone || host.entry.id == report.host;
    if (!host.answered) send(host, order_to(HostOrder::Kind::Tell));
  }
  take_while_asking(report, now);
}

// Any report that comes now is an answer. So is the loss of a host that does not answer for keep_alive. Nobody waits
// for the answers of others if so many are silent that they may take over soon, or if the job ends in any case.
void Coordinator::take_while_asking(const HostReport& report, Time now) {
  using Kind = HostReport::Kind;
  Host* const host = hosts_.find(report.host);
  const bool is_loss = report.kind == Kind::Lost || report.kind == Kind::Leaves;
  if (host != nullptr && (is_loss || report.generation == worlds_)) {
    host->answered = true;
    if (report.kind == Kind::Answers) {
      host->survives = report.ranks.survive;
      host->has_no_ranks = report.ranks.bereft;
    }
    if (report.kind == Kind::Bereft) host->survives = true;
    if (report.kind == Kind::Survives) host->note_survival();
    // Its ranks hold nobody up, whatever is taken before its loss.
    if (is_loss) host->survives = host->has_no_ranks = true;
  }
  if (report.kind == Kind::Returns) hosts_.forget_silence(report.host);
  if (report.kind != Kind::Answers) held_.push_back(report);
  bool is_decided = ends_the_job(report);
  if (host != nullptr && !host->is_gone && is_silent_loss(report)) {
    give_up(*host, report.text, true, now);
    is_decided = is_decided || may_be_cut_off(now);
  }
  if (is_decided) asked_ = Asked::All;
  const auto has_answered = [](const Host& each) { return each.answered; };
  if (is_decided || hosts_.all(has_answered)) take_held(now);
}

bool Coordinator::ends_the_job(const HostReport& report) const {
  using Kind = HostReport::Kind;
  const bool is_loss = report.kind == Kind::Lost || report.kind == Kind::Leaves;
  return report.kind == Kind::Moved || (is_loss && report.host == job_.id);
}

// Silence comes before what else has happened: if the others may take over, nobody is told to continue here. Hosts that
// have ended meanwhile cannot take over.
void Coordinator::take_held(Time now) {
  phase_ = Phase::Running;
  std::vector<HostReport> held = std::exchange(held_, {});
  if (asked_ == Asked::All) {
    const auto others = std::stable_partition(held.begin(), held.end(),
                                              [this](const HostReport& report) { return ends_the_job(report); });
    std::stable_partition(others, held.end(), is_silent_loss);
  }
  for (const HostReport& report : held) take(report, now);
  if (phase_ != Phase::Asking) asked_ = Asked::Nobody;
}

void Coordinator::go_on_without(const Host& lost, const std::string& what) {
  // The ranks of a host that leaves may still end well.
  if (lost.is_gone) lost_.push_back({worlds_, lost.entry.name, what, lost.members});
  note(what + "; the ranks of the other hosts continue");
  let_in_who_waits();
  end_if_all_succeeded();
}

// The host's launcher lives, and may ask for a process that joins the others.
void Coordinator::bereave(Host& host, const std::string& story, Time now) {
  host.survives = host.has_no_ranks = true;
  if (phase_ != Phase::Running) return;
  if (!goes_on()) return fail(story, now);
  end_if_all_succeeded();
}

// As a restart does, it uses up one of --max-restarts.
void Coordinator::grant_member(Host& host) {
  HostOrder order = order_to(HostOrder::Kind::Member);
  if (goes_on() && restarts_ < job_.max_restarts) {
    ++restarts_;
    order.member = next_member_++;
    host.members.push_back(order.member);
  }
  send(host, std::move(order));
}

void Coordinator::take_members(Host& host) {
  host.members.clear();
  for (int i = 0; i < host.entry.local_ranks; ++i) host.members.push_back(next_member_++);
}

void Coordinator::let_in(Host& host) {
  host.placed = host.is_member = host.survives = host.has_no_ranks = true;
  host.ready = host.succeeded = false;
  take_members(host);
  HostOrder order = order_to(HostOrder::Kind::Begin);
  order.world.generation = worlds_;
  order.world.restarts = restarts_;
  order.world.hosts = hosts_.places();
  order.world.first_member = host.members.front();
  order.world.era = era_;
  order.world.next_member = next_member_;
  send(host, std::move(order));
  note(fmt::format("host {} joined; its ranks join the running ones", hosts_.name_of(host.entry)), host.entry.id);
}

void Coordinator::let_in_who_waits() {
  for (Host& host : hosts_) {
    if (!host.placed && hosts_.placed() < job_.max_nodes) let_in(host);
  }
}

void Coordinator::note(const std::string& text, const std::string& except) {
  HostOrder order = order_to(HostOrder::Kind::Note, text);
  order.world.hosts = hosts_.places();
  order.world.era = era_;
  order.world.next_member = next_member_;
  for (const Host& host : hosts_) {
    if (host.placed && host.entry.id != except) send(host, order);
  }
}

}  // namespace lockstep
