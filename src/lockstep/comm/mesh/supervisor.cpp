#include "lockstep/comm/mesh/supervisor.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/start_thread.h"
#include "lockstep/comm/failure/group_failure.h"
#include "lockstep/comm/mesh/diagnosis.h"
#include "lockstep/comm/mesh/talk_times.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

/// How long a caller waits for the thread, which may wait for the store.
constexpr milliseconds kPatience{2000};

}  // namespace

class Supervisor::Watch {
 public:
  Watch(const Membership& membership, std::shared_ptr<Connections> connections)
      : rank(membership.rank),
        look_interval_(TalkTimes(membership).look()),
        connections_(std::move(connections)),
        diagnosis_(membership) {}
  const int rank;
  std::thread thread;

  std::uint64_t enter(const Activity& activity, Deadline deadline) {
    const std::lock_guard<std::mutex> lock(mutex_);
    current_.emplace(next_id_, Diagnosis::CurrentActivity{activity, Deadline::Clock::now(), deadline});
    return next_id_++;
  }

  void restart(std::uint64_t id, Deadline deadline) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = current_.find(id);
    if (found == current_.end()) return;
    found->second.since = Deadline::Clock::now();
    found->second.deadline = deadline;
  }

  void leave(std::uint64_t id, bool ended_well) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = current_.find(id);
    if (found == current_.end()) return;
    if (ended_well && found->second.activity.collective()) {
      ended_[ended_count_++ % ended_.size()] = found->second.activity.fingerprint;
      last_end_ = Deadline::Clock::now();
    }
    current_.erase(found);
  }

  GroupFailure report(const MeshError& error) {
    std::unique_lock<std::mutex> lock(mutex_);
    const bool explains = error.kind() != MeshError::Kind::Timeout && error.kind() != MeshError::Kind::Broken;
    if (explains && !lost_) lost_ = error;
    changed_.notify_all();
    changed_.wait_for(lock, kPatience, [&] { return failure_.has_value(); });
    if (!failure_) failure_ = diagnosis_.unexplained(error);
    return *failure_;
  }

  void abort(const std::string& reason) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!abort_reason_) abort_reason_ = reason;
    changed_.notify_all();
    changed_.wait_for(lock, kPatience, [&] { return failure_.has_value(); });
    lock.unlock();
    connections_->break_connections();
  }

  void run() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!stopping_) {
      const auto news = [&] { return stopping_ || (!failure_ && (lost_ || abort_reason_)); };
      changed_.wait_for(lock, next_look(), news);
      if (stopping_ || failure_) continue;
      lock.unlock();
      std::optional<GroupFailure> found = look();
      if (found) found = diagnosis_.publish(*found);
      lock.lock();
      if (!found) continue;
      if (!failure_) failure_ = std::move(found);
      changed_.notify_all();
      lock.unlock();
      // Only now: a rank that this wakes finds the failure in the store.
      connections_->break_connections();
      lock.lock();
    }
    const bool has_failed = failure_.has_value();
    lock.unlock();
    if (!has_failed) report_leaving();
    lock.lock();
    stopped_ = true;
    changed_.notify_all();
  }

  /// @return  false if the thread waits for a store that does not answer; it then ends by itself later
  bool stop() {
    std::unique_lock<std::mutex> lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
    return changed_.wait_for(lock, kPatience, [&] { return stopped_; });
  }

 private:
  milliseconds next_look() const {
    milliseconds wait = look_interval_;
    for (const auto& [id, doing] : current_) {
      wait = std::min(wait, std::max(milliseconds(1), doing.deadline.remaining()));
    }
    return wait;
  }

  Diagnosis::View view() {
    Diagnosis::View view;
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [id, doing] : current_) view.current.push_back(doing);
    const std::size_t known = std::min(ended_count_, ended_.size());
    for (std::size_t i = ended_count_ - known; i < ended_count_; ++i) view.ended.push_back(ended_[i % ended_.size()]);
    view.last_end = last_end_;
    view.lost = lost_;
    return view;
  }

  void report_leaving() {
    try {
      diagnosis_.leave(view());
    } catch (const Error&) {  // the store is gone already: then all ranks have left
    }
  }

  std::optional<GroupFailure> look() {
    std::optional<std::string> abort_reason;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      abort_reason = abort_reason_;
    }
    if (abort_reason) return diagnosis_.aborted(*abort_reason);
    try {
      return diagnosis_.look(view(), *connections_);
    } catch (const Error&) {
      return std::nullopt;  // the store does not answer; connections and deadlines still report failures
    }
  }

  const milliseconds look_interval_;
  const std::shared_ptr<Connections> connections_;
  Diagnosis diagnosis_;  // used by the thread only, except `unexplained`

  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::map<std::uint64_t, Diagnosis::CurrentActivity> current_;
  std::uint64_t next_id_ = 0;
  std::array<Fingerprint, RankState::kHistory> ended_;  // a ring buffer
  std::size_t ended_count_ = 0;
  Deadline::Clock::time_point last_end_{};
  std::optional<MeshError> lost_;
  std::optional<std::string> abort_reason_;
  std::optional<GroupFailure> failure_;
  bool stopping_ = false;
  bool stopped_ = false;
};

Supervisor::Supervisor(const Membership& membership, std::shared_ptr<Connections> connections)
    : watch_(std::make_shared<Watch>(membership, std::move(connections))) {
  watch_->thread = start_thread("watches the group", [watch = watch_] { watch->run(); });
}

Supervisor::~Supervisor() {
  std::thread thread = std::move(watch_->thread);
  if (watch_->stop()) {
    thread.join();
  } else {
    thread.detach();
  }
}

std::uint64_t Supervisor::enter(const Activity& activity, Deadline deadline) {
  return watch_->enter(activity, deadline);
}
void Supervisor::restart(std::uint64_t id, Deadline deadline) { watch_->restart(id, deadline); }
void Supervisor::leave(std::uint64_t id, bool ended_well) { watch_->leave(id, ended_well); }
void Supervisor::report(const MeshError& error) { watch_->report(error); }
void Supervisor::raise(const MeshError& error) { watch_->report(error).raise(watch_->rank); }
void Supervisor::abort(const std::string& reason) { watch_->abort(reason); }

}  // namespace lockstep
