#include "lockstep/net/store/patience.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "lockstep/base/deadline.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/seconds_since.h"
#include "lockstep/base/slow_notice.h"
#include "lockstep/base/start_thread.h"
#include "lockstep/net/long_work.h"
#include "lockstep/net/sockets/signal_mask.h"

namespace lockstep {
namespace {

using Clock = Deadline::Clock;
using std::chrono::milliseconds;

const char* const kWorkKey = "work/news";
constexpr milliseconds kLongestPeriod{15'000};
constexpr milliseconds kShortestPeriod{50};
/// How long the destructor waits for the thread, which may wait for the store.
constexpr milliseconds kEndPatience{2000};

milliseconds period_for(milliseconds timeout) {
  if (timeout.count() < 0) return kLongestPeriod;
  return std::clamp(timeout / 8, kShortestPeriod, kLongestPeriod);
}

}  // namespace

struct Patience::State {
  struct Work {
    std::string what;
    WorkLog log;
    Clock::time_point since;
    SlowNotice notice;
  };

  State(std::shared_ptr<Store> its_store, int its_rank, milliseconds its_timeout, milliseconds its_period)
      : store(std::move(its_store)), rank(its_rank), timeout(its_timeout), period(its_period) {}

  void run();
  bool watches() const { return last_waiting && Clock::now() - *last_waiting < 3 * period; }
  std::string next_report();
  void note_report(const std::optional<std::string>& report);

  const std::shared_ptr<Store> store;
  const int rank;
  const milliseconds timeout;
  const milliseconds period;
  const std::shared_ptr<DeadlineExtension> extension = std::make_shared<DeadlineExtension>();

  std::mutex mutex;  // guards the members below
  std::condition_variable changed;
  std::thread thread;
  std::map<std::uint64_t, Work> works;
  std::uint64_t next_work = 1;
  std::uint64_t reports = 0;
  std::optional<Clock::time_point> last_waiting;
  bool has_looked = false;  // since the wait began; the content before that is not news
  std::string last_report;  // the newest text in the store
  std::string who;          // the ranks named in it
  Clock::time_point reported_at;
  bool stopping = false;
  bool stopped = false;
};

// This rank's report to the others; empty if it does not work.
std::string Patience::State::next_report() {
  if (works.empty()) return "";
  for (auto& [number, work] : works) {
    if (work.log == WorkLog::Quiet || !work.notice.due(Clock::now() - work.since)) continue;
    const LogLevel level = rank == 0 ? LogLevel::Warning : LogLevel::Info;
    if (!log_enabled(level)) continue;
    log_line(level, fmt::format("still {}, for {:.0f} s so far", work.what, seconds_since(work.since)));
  }
  const Work& newest = works.rbegin()->second;
  return fmt::format("{} {} rank {} is {} (for {:.0f} s)", rank, ++reports, rank, newest.what,
                     seconds_since(newest.since));
}

void Patience::State::note_report(const std::optional<std::string>& report) {
  const bool is_new = report && *report != last_report;
  if (is_new) last_report = *report;
  if (!is_new || !has_looked) {
    has_looked = true;
    return;
  }
  const std::size_t number = last_report.find(' ');
  const std::size_t words = number == std::string::npos ? number : last_report.find(' ', number + 1);
  if (words == std::string::npos || last_report.substr(0, number) == std::to_string(rank)) return;
  who = last_report.substr(words + 1);
  reported_at = Clock::now();
  extension->extend_until(reported_at + timeout);
}

void Patience::State::run() {
  std::unique_lock<std::mutex> lock(mutex);
  while (!stopping) {
    if (works.empty() && !watches()) {
      has_looked = false;
      changed.wait(lock, [this] { return stopping || !works.empty() || watches(); });
    }
    const auto next = Clock::now() + period;
    if (changed.wait_until(lock, next, [this] { return stopping; })) break;
    const std::string own_report = next_report();
    const bool looks = watches();
    if (!looks) has_looked = false;
    lock.unlock();
    std::optional<std::string> text;
    try {
      if (looks) text = store->try_get(kWorkKey);  // first, because this rank's report replaces the others'
      if (!own_report.empty()) store->set(kWorkKey, own_report);
    } catch (const std::exception&) {
      // A store that does not answer has no news: deadlines stay as they are.
    }
    lock.lock();
    if (looks) note_report(text);
  }
  stopped = true;
  changed.notify_all();
}

Patience::Patience(std::shared_ptr<Store> store, int rank, milliseconds timeout)
    : period_(period_for(timeout)),
      state_(std::make_shared<State>(std::move(store), rank, timeout, period_)),
      extension_(state_->extension) {}

Patience::~Patience() {
  if (!home_.is_here()) {  // a forked child: the thread, and what it shares with this object, are the parent's
    never_destroy(state_);
    return;
  }
  std::unique_lock<std::mutex> lock(state_->mutex);
  if (!state_->thread.joinable()) return;
  state_->stopping = true;
  state_->changed.notify_all();
  const bool ended = state_->changed.wait_for(lock, kEndPatience, [this] { return state_->stopped; });
  lock.unlock();
  if (ended) {
    state_->thread.join();
  } else {
    state_->thread.detach();  // it waits for a store that does not answer, and ends by itself later
  }
}

void Patience::ensure_thread() {
  state_->changed.notify_all();
  if (state_->thread.joinable()) return;
  const SignalsBlocked blocked;  // for the thread, which inherits it
  try {
    state_->thread = start_thread("lets ranks wait for one that works", [state = state_] { state->run(); });
  } catch (const Error& error) {
    log_warning("{}; without it, waits end at the timeout", error.happened());
  }
}

void Patience::waiting() {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  const bool was_known = state_->watches();
  state_->last_waiting = Clock::now();
  if (!was_known) ensure_thread();
}

std::string Patience::who_works() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return Clock::now() - state_->reported_at < 3 * period_ ? state_->who : "";
}

std::uint64_t Patience::begin(const std::string& what, WorkLog log) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->works.emplace(state_->next_work, State::Work{what, log, Clock::now(), SlowNotice(state_->timeout)});
  ensure_thread();
  return state_->next_work++;
}

void Patience::end(std::uint64_t work) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->works.erase(work);
}

}  // namespace lockstep
