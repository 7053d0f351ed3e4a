#include "lockstep/launch/elastic/coordinator.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/launch/nodes/outcome_signal.h"

namespace lockstep {
Coordinator::Coordinator(HostEntry job, Rules rules, Time now, std::optional<Takeover> takeover)
    : job_(std::move(job)),
      rules_(rules),
      takeover_(std::move(takeover)),
      phase_(takeover_ ? Phase::Resuming : Phase::Gathering),
      hosts_(job_),
      short_since_(now) {
  if (!takeover_) return;
  worlds_ = takeover_->generation;
  restarts_ = takeover_->restarts;
  era_ = takeover_->era;
}

void Coordinator::take(const HostReport& report, Time now) {
  if (phase_ == Phase::Asking) return take_while_asking(report, now);
  if (must_ask_before(report)) return ask_before(report, now);
  if (report.kind == HostReport::Kind::Joins) return admit(report, now);
  if (report.kind == HostReport::Kind::Resumes) return resume(report, now);
  if (report.kind == HostReport::Kind::Moved) return move_to(report.text);
  if (report.kind == HostReport::Kind::Returns) return take_back(report.host);
  Host* const host = hosts_.find(report.host);
  if (host == nullptr) return;  // it was declared lost before
  if (report.kind == HostReport::Kind::Lost) {
    if (!host->is_gone) give_up(*host, report.text, is_silent_loss(report), now);
    return lose(report.host, cause_of_loss(host->entry, report.text), now);
  }
  if (report.kind == HostReport::Kind::Leaves) {
    return lose(report.host, fmt::format("host {} left: {}", hosts_.name_of(host->entry), report.text), now);
  }
  if (phase_ == Phase::Resuming) return take_while_resuming(*host, report);
  if (report.generation != worlds_) return;  // of a world that has ended
  const bool running = phase_ == Phase::Running || phase_ == Phase::InDoubt;
  switch (report.kind) {
    case HostReport::Kind::Ready:
      host->ready = true;
      return begin_if_complete(now);
    case HostReport::Kind::Failed:
      if (running && report.recurs) return end(false, report.text);
      if (running && !report.blames_a_peer) return fail(report.text, now);
      if (phase_ == Phase::Running) doubt(report.text, now);
      return;
    case HostReport::Kind::Succeeded:
      host->succeeded = true;
      return end_if_all_succeeded();
    case HostReport::Kind::Survives:
      return host->note_survival();
    case HostReport::Kind::Bereft:
      return bereave(*host, report.text, now);
    case HostReport::Kind::Gone:
      if (era_ == 0) return;  // the store notices it
      lost_.push_back({worlds_, host->entry.name, report.text, {report.member}});
      return;
    case HostReport::Kind::NeedsRank:
      if (host->note_request(report.request)) grant_member(*host);
      return;
    case HostReport::Kind::Answers:
      host->answered = true;
      return fail_if_all_answered(now);
    default:
      return;
  }
}

void Coordinator::admit(const HostReport& report, Time now) {
  Host host;
  host.entry = report.entry;
  host.since = now;
  const std::string fix = "start every host with the same program and flags, and each job with an endpoint of its own";
  if (phase_ == Phase::Over) return send(host, order_to(HostOrder::Kind::Refuse, "the job is over", "start it again"));
  if (!moved_to_.empty()) return send(host, order_to(HostOrder::Kind::Move, moved_to_));
  if (const auto reason = difference(job_, report.entry)) {
    return send(host,
                order_to(HostOrder::Kind::Refuse,
                         fmt::format("host {} cannot join the job: {}", hosts_.name_of(report.entry), *reason), fix));
  }
  Host& admitted = hosts_.add(host);
  if (phase_ == Phase::Resuming) return;
  if (phase_ == Phase::Gathering) return begin_if_complete(now);
  if (hosts_.placed() == job_.max_nodes) return send_wait(admitted);
  if (goes_on()) return let_in(admitted);
  gather_again(fmt::format("host {} joined", hosts_.name_of(report.entry)), true, now);
}

void Coordinator::doubt(const std::string& story, Time now) {
  phase_ = Phase::InDoubt;
  doubtful_story_ = story;
  probed_ = now;
  for (Host& host : hosts_) {
    host.answered = host.entry.id == job_.id;  // the serving host is certainly alive
    if (host.placed && !host.answered) send(host, order_to(HostOrder::Kind::Probe));
  }
  fail_if_all_answered(now);
}

void Coordinator::fail_if_all_answered(Time now) {
  const auto is_silent = [](const Host& host) { return host.placed && !host.answered; };
  if (phase_ == Phase::InDoubt && !hosts_.any(is_silent)) fail(doubtful_story_, now);
}

void Coordinator::fail(const std::string& story, Time now) {
  const Outcome outcome = Outcome::of_failure(story, restarts_, job_.max_restarts);
  if (outcome.is_final) return end(false, story);
  ++restarts_;
  gather_again(outcome.story, false, now);
}

void Coordinator::lose(std::string id, const std::string& what, Time now) {
  const Host lost = hosts_.remove(id);
  const bool mattered = lost.placed && !lost.succeeded;
  if (phase_ == Phase::Over) return;
  if (id == job_.id) return end(false, what + "; it serves the rendezvous, so the job ends");
  if (phase_ == Phase::Resuming) {
    if (lost.generation > 0) --takeover_->hosts;
    return settle_if_complete(now);
  }
  if (lost.is_silent && may_be_cut_off(now)) {
    is_cut_off_ = true;
    return end(false, what + "; so many hosts are silent that they may continue without this one", true);
  }
  if (phase_ == Phase::Gathering) {
    if (hosts_.count() < job_.min_nodes && !short_of_hosts_) {
      short_of_hosts_ = true;
      short_since_ = now;
    }
    return begin_if_complete(now);
  }
  if (!mattered) return end_if_all_succeeded();
  if (goes_on()) return go_on_without(lost, what);
  // With a fixed number of hosts and no restarts, the user does not want to wait for another host.
  if (job_.min_nodes == job_.max_nodes && job_.max_restarts == 0) return end(false, what);
  gather_again(what, false, now);
}

void Coordinator::gather_again(const std::string& why, bool has_time, Time now) {
  phase_ = Phase::Gathering;
  short_of_hosts_ = hosts_.count() < job_.min_nodes;
  short_since_ = now;
  enough_since_.reset();
  for (Host& host : hosts_) {
    if (!host.placed) continue;
    host.placed = false;
    host.ready = false;
    host.succeeded = false;
    HostOrder order = order_to(HostOrder::Kind::Stop, why);
    order.has_time = has_time;
    send(host, std::move(order));
  }
  begin_if_complete(now);
}

void Coordinator::begin_if_complete(Time now) {
  if (phase_ != Phase::Gathering || !hosts_.has_serving()) return;
  if (hosts_.count() < job_.min_nodes) {
    enough_since_.reset();
    return report_missing_hosts(now);
  }
  if (!enough_since_) enough_since_ = now;
  if (!hosts_.all_ready()) return;
  const bool calls_last = short_of_hosts_ && hosts_.count() < job_.max_nodes;
  if (calls_last && now < *enough_since_ + rules_.last_call) return report_missing_hosts(now);
  begin(now);
}

void Coordinator::report_missing_hosts(Time now) {
  changed_since_report_ = reported_at_ && now < *reported_at_ + rules_.report_interval;
  if (changed_since_report_) return;
  reported_at_ = now;
  const bool enough = hosts_.count() >= job_.min_nodes;
  HostOrder order = order_to(HostOrder::Kind::Wait);
  order.text = enough ? fmt::format("{} of up to {} are here ({}); others have {} to join", hosts_.count(),
                                    hosts_text(job_.max_nodes), hosts_.names(), seconds(rules_.last_call))
                      : fmt::format("{} of at least {} here ({}); waiting up to {} for others", hosts_.count(),
                                    hosts_text(job_.min_nodes), hosts_.names(), seconds(rules_.join_timeout));
  const Time until = enough ? *enough_since_ + rules_.last_call : short_since_ + rules_.join_timeout;
  order.time_left = std::chrono::ceil<std::chrono::milliseconds>(std::max(until, now) - now);
  for (const Host& host : hosts_) send(host, order);
}

void Coordinator::begin(Time now) {
  phase_ = Phase::Running;
  short_of_hosts_ = false;
  enough_since_.reset();
  reported_at_.reset();
  changed_since_report_ = false;
  HostOrder order = order_to(HostOrder::Kind::Begin);
  order.world.generation = ++worlds_;
  era_ = 0;  // these ranks have lost no store yet
  order.world.restarts = restarts_;
  next_member_ = 0;
  int given = 0;
  for (Host& host : hosts_) {
    host.placed = host.is_member = given < job_.max_nodes;
    host.ready = !host.placed;
    host.succeeded = host.survives = host.has_no_ranks = false;
    host.requests = 0;
    if (host.placed) {
      ++given;
      take_members(host);
    } else {
      host.since = now;
      send_wait(host);
    }
  }
  order.world.hosts = hosts_.places();
  order.world.era = era_;
  order.world.next_member = next_member_;
  for (const Host& host : hosts_) {
    if (host.placed) send(host, order);
  }
}

void Coordinator::end_if_all_succeeded() {
  if (phase_ != Phase::Running && phase_ != Phase::InDoubt) return;
  const auto needs_nothing = [](const Host& host) { return host.succeeded || host.has_no_ranks || !host.placed; };
  const auto has_result = [](const Host& host) { return host.placed && host.succeeded; };
  if (hosts_.all(needs_nothing) && hosts_.any(has_result)) end(true, "");
}

void Coordinator::end(bool success, const std::string& story, bool runs_elsewhere) {
  phase_ = Phase::Over;
  HostOrder order = order_to(HostOrder::Kind::End, story);
  order.success = success;
  order.runs_elsewhere = runs_elsewhere;
  for (const Host& host : hosts_) send(host, order);
}

std::vector<std::pair<std::string, HostOrder>> Coordinator::take_orders() { return std::exchange(orders_, {}); }

std::string Coordinator::hosts_text(int count) { return fmt::format("{} host{}", count, count == 1 ? "" : "s"); }

std::string Coordinator::seconds(std::chrono::milliseconds time) {
  return fmt::format("{} s", std::chrono::duration<double>(time).count());
}

}  // namespace lockstep
