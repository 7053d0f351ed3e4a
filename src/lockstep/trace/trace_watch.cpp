#include "lockstep/trace/trace_watch.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/failure_record.h"
#include "lockstep/base/start_thread.h"

namespace lockstep {
namespace {

constexpr std::chrono::milliseconds kPatienceAtEnd{800};  // a launcher sends SIGKILL after 900 ms

std::atomic<TraceWatch*> the_watch{nullptr};

void notify_the_watch(TraceEnd end) noexcept {
  const int saved = errno;
  if (TraceWatch* const watch = the_watch.load()) watch->notify(end);
  errno = saved;
}

void on_sigterm(int) { notify_the_watch(TraceEnd::Signal); }
void on_recorded_failure() noexcept { notify_the_watch(TraceEnd::Failure); }

void before_end() noexcept {
  if (TraceWatch* const watch = the_watch.load()) watch->await_end();
}

constexpr FailureWatcher kWatcher{on_recorded_failure, before_end};

bool install_handler() {
  struct sigaction present = {};
  if (::sigaction(SIGTERM, nullptr, &present) != 0 || present.sa_handler != SIG_DFL) return false;
  struct sigaction wanted = {};
  wanted.sa_handler = on_sigterm;
  wanted.sa_flags = SA_RESTART;
  return ::sigaction(SIGTERM, &wanted, nullptr) == 0;
}

// The program may have put its own in place since.
void remove_handler() {
  struct sigaction present = {};
  if (::sigaction(SIGTERM, nullptr, &present) == 0 && present.sa_handler == on_sigterm) std::signal(SIGTERM, SIG_DFL);
}

void end_by_sigterm() {
  std::signal(SIGTERM, SIG_DFL);
  ::kill(::getpid(), SIGTERM);
}

}  // namespace

TraceWatch::TraceWatch(std::function<void(TraceEnd)> on_end)
    : on_end_(std::move(on_end)), wake_(::eventfd(0, EFD_CLOEXEC)) {
  if (wake_.get() < 0) {
    throw Error("no eventfd for the trace: " + errno_text(errno), "trace", "raise the limit on open files (ulimit -n)");
  }
  the_watch = this;
  thread_ = start_thread("writes the trace", [this] { run(); });
  handles_signal_ = install_handler();
  watch_failures(&kWatcher);
}

TraceWatch::~TraceWatch() {
  watch_failures(nullptr);
  quits_ = true;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof(one));
  thread_.join();
  the_watch = nullptr;
  if (handles_signal_) remove_handler();
  if (handles_signal_ && end_ == TraceEnd::Signal) end_by_sigterm();  // it arrived too late for the thread
}

void TraceWatch::notify(TraceEnd end) noexcept {
  TraceEnd none = TraceEnd::None;
  if (!end_.compare_exchange_strong(none, end) && end != TraceEnd::Signal) return;
  if (end == TraceEnd::Signal) end_ = end;  // the process waits for the thread to end it
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof(one));
}

void TraceWatch::await_end() noexcept {
  if (end_ == TraceEnd::None || std::this_thread::get_id() == thread_.get_id()) return;
  std::unique_lock<std::mutex> lock(mutex_);
  ended_.wait_for(lock, kPatienceAtEnd, [this] { return has_ended_; });
}

void TraceWatch::run() {
  while (!quits_) {
    std::uint64_t count = 0;
    if (::read(wake_.get(), &count, sizeof(count)) < 0 && errno == EINTR) continue;
    const TraceEnd end = end_;
    if (end != TraceEnd::None && !has_ended_ && !quits_) {
      on_end_(end);
      const std::lock_guard<std::mutex> lock(mutex_);
      has_ended_ = true;
      ended_.notify_all();
    }
    if (end_ == TraceEnd::Signal && handles_signal_) end_by_sigterm();
  }
}

}  // namespace lockstep
