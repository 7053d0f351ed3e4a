#include "lockstep/launch/elastic/host_reporting.h"

#include "lockstep/base/error.h"
#include "lockstep/base/processor/topology.h"

namespace lockstep {
namespace {

constexpr std::size_t kLongestReportBytes = 16UL * 1024;

}  // namespace

// Called under the lock.
HostReport HostReporting::new_report(HostReport::Kind kind, const std::string& text) const {
  HostReport report;
  report.kind = kind;
  report.host = state_.self.id;
  report.text = text.substr(0, kLongestReportBytes);
  report.generation = state_.generation;
  return report;
}

void HostReporting::report(HostReport::Kind kind, const std::string& text) {
  HostReport report;
  {
    const std::lock_guard lock(state_.mutex);
    report = new_report(kind, text);
  }
  post(report);
}

void HostReporting::report_locked(HostReport::Kind kind, const std::string& text) { post(new_report(kind, text)); }

void HostReporting::answer_locked() {
  HostReport report = new_report(HostReport::Kind::Answers, {});
  report.ranks = state_.standing.now();
  post(report);
}

void HostReporting::post(const HostReport& report) {
  notifier_.post([this, report] { push(report); });
}

// A process that ends before it has entered a store that has just moved is not missed by that store's server.
void HostReporting::report_gone(int member, const std::string& cause) {
  HostReport report;
  {
    const std::lock_guard lock(state_.mutex);
    state_.standing.lose_member(member);
    report = new_report(HostReport::Kind::Gone, cause);
  }
  report.member = member;
  post(report);
}

void HostReporting::ask_for_member() {
  HostReport report;
  {
    const std::lock_guard lock(state_.mutex);
    report = new_report(HostReport::Kind::NeedsRank, {});
    report.request = state_.standing.ask_for_member();
  }
  post(report);
}

void HostReporting::await_survival(const std::vector<std::string>& files) {
  const std::lock_guard lock(state_.mutex);
  state_.standing.await_survival(files);
}

void HostReporting::report_survival() {
  {
    const std::lock_guard lock(state_.mutex);
    state_.standing.note_survival();
  }
  report(HostReport::Kind::Survives);
}

void HostReporting::report_no_ranks(const std::string& story) {
  {
    const std::lock_guard lock(state_.mutex);
    state_.standing.lose_ranks();
  }
  report(HostReport::Kind::HasNoRanks, story);
}

// If the serving host is lost, the next one gets the report.
void HostReporting::push(const HostReport& report) {
  for (;;) {
    const std::shared_ptr<StoreClient> client = state_.client_now();
    try {
      client->push(kReportQueue, to_text(report));
      return;
    } catch (const Error&) {
      std::unique_lock lock(state_.mutex);
      state_.changed.wait(lock,
                          [&] { return state_.client != client || state_.over || state_.stopping || state_.joins; });
      if (state_.client == client) return;
    }
  }
}

void HostReporting::mark_lost(int member, const std::string& cause) {
  {
    const std::lock_guard lock(state_.mutex);
    if (state_.server) {
      state_.standing.lose_member(member);
      return state_.server->mark_lost(state_.generation - 1, LostRank{member, host_name(), cause});
    }
  }
  report_gone(member, cause);
}

void HostReporting::report_failure(const RankFailure& failure) {
  HostReport report;
  {
    const std::lock_guard lock(state_.mutex);
    report = new_report(HostReport::Kind::Failed, failure.story);
  }
  report.blames_a_peer = failure.blames_a_peer;
  report.recurs = failure.recurs;
  post(report);
}

void HostReporting::report_success() {
  {
    const std::lock_guard lock(state_.mutex);
    state_.standing.note_success();
  }
  report(HostReport::Kind::Succeeded);
}

}  // namespace lockstep
