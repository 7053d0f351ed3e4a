#include "lockstep/launch/elastic/coordinator.h"

#include <fmt/format.h>

#include "lockstep/launch/elastic/rules/restart_rules.h"
#include "lockstep/launch/elastic/rules/survival_rules.h"
#include "lockstep/launch/elastic/rules/takeover_rules.h"

namespace lockstep {

void Coordinator::take(const HostReport& report, Time now) {
  if (state_.phase == Phase::Asking) return take_while_asking(report, now);
  if (!survival_rules::must_ask_before(state_, report)) return take_now(report, now);
  survival_rules::ask_before(state_, report);
  take_while_asking(report, now);
}

void Coordinator::take_while_asking(const HostReport& report, Time now) {
  if (!survival_rules::defer(state_, report, now)) return;
  for (const HostReport& deferred : survival_rules::take_deferred(state_)) take(deferred, now);
  if (state_.phase != Phase::Asking) state_.asking.whom = JobState::Asking::Whom::Nobody;
}

void Coordinator::take_now(const HostReport& report, Time now) {
  using Kind = HostReport::Kind;
  if (report.kind == Kind::Joins) return admit(report, now);
  if (report.kind == Kind::Resumes) return takeover_rules::resume(state_, report, now);
  if (report.kind == Kind::Moved) return takeover_rules::move_to(state_, report.text);
  if (report.kind == Kind::Returns) return takeover_rules::take_back(state_, report.host);
  Host* const host = state_.hosts.find(report.host);
  if (host == nullptr) return;  // it was declared lost before
  if (report.kind == Kind::Lost) return lose_contact(*host, report.text, is_silent_loss(report), now);
  if (report.kind == Kind::Leaves) {
    const std::string name = state_.hosts.name_of(host->entry);
    return lose(report.host, fmt::format("host {} left: {}", name, report.text), now);
  }
  if (state_.phase == Phase::Resuming) return takeover_rules::take_while_resuming(state_, *host, report);
  if (report.generation == state_.generation) take_of_generation(*host, report, now);  // else one has ended
}

void Coordinator::take_of_generation(Host& host, const HostReport& report, Time now) {
  switch (report.kind) {
    case HostReport::Kind::Ready:
      host.ready = true;
      return restart_rules::begin_if_complete(state_, now);
    case HostReport::Kind::Failed:
      return restart_rules::take_failure(state_, report, now);
    case HostReport::Kind::Succeeded:
      host.succeeded = true;
      return restart_rules::end_if_all_succeeded(state_);
    case HostReport::Kind::Survives:
      return host.note_survival();
    case HostReport::Kind::HasNoRanks:
      return survival_rules::lose_ranks(state_, host, report.text, now);
    case HostReport::Kind::Gone:
      if (state_.era == 0) return;  // the store notices it
      state_.lost.push_back({state_.generation, host.entry.name, report.text, {report.member}});
      return;
    case HostReport::Kind::NeedsRank:
      if (host.note_request(report.request)) survival_rules::grant_member(state_, host);
      return;
    case HostReport::Kind::Answers:
      host.answered = true;
      return restart_rules::fail_if_all_answered(state_, now);
    default:
      return;
  }
}

void Coordinator::admit(const HostReport& report, Time now) {
  Host host;
  host.entry = report.entry;
  host.since = now;
  const std::string name = state_.hosts.name_of(report.entry);
  if (state_.phase == Phase::Over) {
    return state_.send(host, order_to(HostOrder::Kind::Refuse, "the job is over", "start it again"));
  }
  if (!state_.moved_to.empty()) return state_.send(host, order_to(HostOrder::Kind::Move, state_.moved_to));
  if (const auto reason = difference(state_.job, report.entry)) {
    return state_.send(
        host, order_to(HostOrder::Kind::Refuse, fmt::format("host {} cannot join the job: {}", name, *reason),
                       "start every host with the same program and flags, and each job with an endpoint of its own"));
  }
  Host& admitted = state_.hosts.add(std::move(host));
  if (state_.phase == Phase::Resuming) return;
  if (state_.phase == Phase::Gathering) return restart_rules::begin_if_complete(state_, now);
  if (state_.hosts.placed() == state_.job.max_nodes) return restart_rules::send_wait(state_, admitted);
  if (survival_rules::survive(state_)) return survival_rules::admit_host(state_, admitted);
  restart_rules::gather_again(state_, fmt::format("host {} joined", name), true, now);
}

void Coordinator::lose_contact(Host& host, const std::string& cause, bool is_silent, Time now) {
  if (!host.is_gone) state_.give_up(host, cause, is_silent, now);
  lose(host.entry.id, fmt::format("host {} was lost: {}", state_.hosts.name_of(host.entry), cause), now);
}

void Coordinator::lose(std::string id, const std::string& what, Time now) {
  const Host lost = state_.hosts.remove(id);
  const bool mattered = lost.placed && !lost.succeeded;
  if (state_.phase == Phase::Over) return;
  if (id == state_.job.id) return state_.end(false, what + "; it serves the rendezvous, so the job ends");
  if (state_.phase == Phase::Resuming) return takeover_rules::lose_while_resuming(state_, lost, now);
  if (lost.is_silent && state_.may_be_cut_off(now)) {
    state_.is_cut_off = true;
    return state_.end(false, what + "; so many hosts are silent that they may continue without this one", true);
  }
  if (state_.phase == Phase::Gathering) return restart_rules::lose_while_gathering(state_, now);
  if (!mattered) return restart_rules::end_if_all_succeeded(state_);
  if (survival_rules::survive(state_)) return survival_rules::continue_without(state_, lost, what);
  restart_rules::gather_without(state_, what, now);
}

void Coordinator::act_on_time(Time now) {
  if (Host* const silent = restart_rules::silent_host(state_, now)) {
    return lose_contact(*silent, restart_rules::cause_of_silence(state_), true, now);
  }
  if (state_.phase == Phase::Resuming) return takeover_rules::settle_if_complete(state_, now);
  restart_rules::act_on_time(state_, now);
}

std::optional<Coordinator::Time> Coordinator::next_time() const {
  return state_.phase == Phase::Resuming ? takeover_rules::next_time(state_) : restart_rules::next_time(state_);
}

}  // namespace lockstep
