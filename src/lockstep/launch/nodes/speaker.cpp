#include "lockstep/launch/nodes/speaker.h"

#include <utility>

#include "lockstep/base/start_thread.h"
#include "lockstep/net/sockets/signal_mask.h"

namespace lockstep {

Speaker::Speaker() {
  const SignalsBlocked blocked;
  thread_ = start_thread("speaks to the other launchers", [this] { run(); });
}

Speaker::~Speaker() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Speaker::say(std::function<void()> what) {
  {
    const std::lock_guard lock(mutex_);
    to_say_.push_back(std::move(what));
  }
  changed_.notify_all();
}

bool Speaker::wait_until_said(Deadline deadline) {
  std::unique_lock lock(mutex_);
  while (!to_say_.empty()) {
    if (deadline.passed()) return false;
    changed_.wait_for(lock, deadline.remaining());
  }
  return true;
}

void Speaker::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return !to_say_.empty() || stopping_; });
    if (to_say_.empty()) return;
    const std::function<void()> what = to_say_.front();
    lock.unlock();
    what();
    lock.lock();
    to_say_.pop_front();
    changed_.notify_all();
  }
}

}  // namespace lockstep
