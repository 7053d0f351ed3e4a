#include "lockstep/launch/nodes/wait_notice.h"

#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/start_thread.h"
#include "lockstep/launch/launcher_name.h"
#include "lockstep/net/sockets/signal_mask.h"

namespace lockstep {
namespace {

constexpr std::chrono::seconds kFirstNotice{1};
constexpr std::chrono::seconds kNoticeInterval{60};

void report_wait(const std::function<std::string()>& what, Deadline until) {
  if (!log_enabled(LogLevel::Warning)) return;
  try {
    std::string line = fmt::format("lockstep run on {}: {}", launcher_name(), what());
    if (!until.is_never()) {
      line += fmt::format("; {} s left", std::chrono::ceil<std::chrono::seconds>(until.remaining()).count());
    }
    line += "\n";
    std::fputs(line.c_str(), stderr);
  } catch (const Error&) {
    // The waiting call reports the error itself.
  }
}

}  // namespace

WaitNotice::WaitNotice() {
  const SignalsBlocked blocked;
  thread_ = start_thread("tells who is waited for", [this] { run(); });
}

WaitNotice::~WaitNotice() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void WaitNotice::begin(std::function<std::string()> what, Deadline until) {
  {
    const std::lock_guard lock(mutex_);
    what_ = std::move(what);
    until_ = until;
    tell_at_ = what_ ? Deadline::after(kFirstNotice) : Deadline::never();
    ++waits_;
  }
  changed_.notify_all();
}

void WaitNotice::begin(const std::string& what, Deadline until) {
  begin([what] { return what; }, until);
}

void WaitNotice::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (!tell_at_.passed()) {
      changed_.wait_for(lock, tell_at_.remaining());
      continue;
    }
    const int wait = waits_;
    const std::function<std::string()> what = what_;
    const Deadline until = until_;
    lock.unlock();
    report_wait(what, until);
    lock.lock();
    if (wait == waits_) tell_at_ = Deadline::after(kNoticeInterval);
  }
}

}  // namespace lockstep
