#include "lockstep/launch/nodes/outcome_signal.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "lockstep/base/error.h"

namespace lockstep {

Outcome Outcome::of_failure(const std::string& story, int restarts, int max_restarts) {
  if (restarts >= max_restarts) return {false, true, false, story};
  return {false, false, false,
          fmt::format("{}\n  all ranks are started again: restart {} of {}", story, restarts + 1, max_restarts)};
}

OutcomeSignal::OutcomeSignal() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!event_) throw Error("cannot make an event: " + errno_text(errno), "the launcher", "raise ulimit -n");
}

void OutcomeSignal::publish(const Outcome& outcome) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (outcome_) return;
    outcome_ = outcome;
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(event_.get(), &one, sizeof(one));
}

std::optional<Outcome> OutcomeSignal::get() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return outcome_;
}

void OutcomeSignal::reset() {
  const std::lock_guard<std::mutex> lock(mutex_);
  outcome_.reset();
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(event_.get(), &count, sizeof(count));
}

}  // namespace lockstep
