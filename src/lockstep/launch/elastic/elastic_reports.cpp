// What a host reports to the coordinator, by messages that the event loop does not wait for, and how it leaves.
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/launch/elastic/elastic_nodes.h"

namespace lockstep {
namespace {

constexpr std::chrono::milliseconds kFarewellTimeout{5000};
constexpr std::size_t kLongestReportBytes = 16UL * 1024;

}  // namespace

void ElasticNodes::lose_server(const std::string& cause) {
  const std::lock_guard lock(mutex_);
  if (over_ || stopping_) return;
  const std::string name = server_name_.empty() ? "the host" : "host " + server_name_;
  over_ = Outcome{false, true, false, fmt::format("{}, which serves the rendezvous, is lost: {}", name, cause), true};
  outcome_.publish(*over_);
  changed_.notify_all();
}

// Called under the lock.
HostReport ElasticNodes::new_report(HostReport::Kind kind, const std::string& text) const {
  HostReport report;
  report.kind = kind;
  report.host = self_.id;
  report.text = text.substr(0, kLongestReportBytes);
  report.generation = generation_;
  return report;
}

void ElasticNodes::report(HostReport::Kind kind, const std::string& text) {
  HostReport report;
  {
    const std::lock_guard lock(mutex_);
    report = new_report(kind, text);
  }
  notifier_.post([this, report] { push(report); });
}

// A process that ends before it has entered a store that has just moved is not missed by that store's server.
void ElasticNodes::report_gone(int member, const std::string& cause) {
  HostReport report;
  {
    const std::lock_guard lock(mutex_);
    standing_.lose_member(member);
    report = new_report(HostReport::Kind::Gone, cause);
  }
  report.member = member;
  notifier_.post([this, report] { push(report); });
}

void ElasticNodes::ask_for_member() {
  HostReport report;
  {
    const std::lock_guard lock(mutex_);
    report = new_report(HostReport::Kind::NeedsRank, {});
    report.request = standing_.ask_for_member();
  }
  notifier_.post([this, report] { push(report); });
}

void ElasticNodes::await_survival(const std::vector<std::string>& files) {
  const std::lock_guard lock(mutex_);
  standing_.await_survival(files);
}

void ElasticNodes::report_survival() {
  {
    const std::lock_guard lock(mutex_);
    standing_.note_survival();
  }
  report(HostReport::Kind::Survives);
}

void ElasticNodes::report_no_ranks(const std::string& story) {
  {
    const std::lock_guard lock(mutex_);
    standing_.lose_ranks();
  }
  report(HostReport::Kind::HasNoRanks, story);
}

// If the serving host is lost, the next one gets the report.
void ElasticNodes::push(const HostReport& report) {
  for (;;) {
    const std::shared_ptr<StoreClient> client = this->client();
    try {
      client->push(kReportQueue, to_text(report));
      return;
    } catch (const Error&) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return client_ != client || over_ || stopping_ || joins_; });
      if (client_ == client) return;
    }
  }
}

std::shared_ptr<StoreClient> ElasticNodes::client() const {
  const std::lock_guard lock(mutex_);
  return client_;
}

std::string ElasticNodes::store_address() const {
  const std::lock_guard lock(mutex_);
  return address_.text();
}

void ElasticNodes::mark_lost(int member, const std::string& cause) {
  {
    const std::lock_guard lock(mutex_);
    if (server_) {
      standing_.lose_member(member);
      return server_->mark_lost(generation_ - 1, LostRank{member, host_name(), cause});
    }
  }
  report_gone(member, cause);
}

// It has left the ranks of an earlier store in order, which the present one does not know.
void ElasticNodes::note_success(int member) { report_gone(member, "it has finished"); }

void ElasticNodes::report_failure(const RankFailure& failure) {
  HostReport report;
  {
    const std::lock_guard lock(mutex_);
    report = new_report(HostReport::Kind::Failed, failure.story);
  }
  report.blames_a_peer = failure.blames_a_peer;
  report.recurs = failure.recurs;
  notifier_.post([this, report] { push(report); });
}

// The job continues without this host, unless this host serves the store.
void ElasticNodes::report_leaving(const std::string& why) {
  report(HostReport::Kind::Leaves, why);
  outcome_.publish({false, true, false, why});
}

void ElasticNodes::report_success() {
  {
    const std::lock_guard lock(mutex_);
    standing_.note_success();
  }
  report(HostReport::Kind::Succeeded);
}

void ElasticNodes::leave() {
  const Deadline deadline = Deadline::after(kFarewellTimeout);
  report(HostReport::Kind::Leaves, "its launcher has ended");
  if (CoordinatorService* const coordinator = own_coordinator()) coordinator->wait_until_left(deadline);
  leave_store(deadline);
}

// Ends the waits of all threads, even if the server does not answer.
void ElasticNodes::leave_store(Deadline deadline) {
  notice_.end();
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  notifier_.wait_until_done(deadline);
  client()->finish(deadline);
}

void ElasticNodes::abort_leave() {
  if (CoordinatorService* const coordinator = own_coordinator()) coordinator->stop_waiting();
  leave_store(Deadline::after(std::chrono::milliseconds(0)));
}

}  // namespace lockstep
