#include "lockstep/launch/nodes/store_notifier.h"

#include <utility>

#include "lockstep/base/start_thread.h"
#include "lockstep/net/sockets/signal_mask.h"

namespace lockstep {

StoreNotifier::StoreNotifier() {
  const SignalsBlocked blocked;
  thread_ = start_thread("notifies the other launchers", [this] { run(); });
}

StoreNotifier::~StoreNotifier() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void StoreNotifier::post(std::function<void()> message) {
  {
    const std::lock_guard lock(mutex_);
    pending_.push_back(std::move(message));
  }
  changed_.notify_all();
}

bool StoreNotifier::wait_until_done(Deadline deadline) {
  std::unique_lock lock(mutex_);
  while (!pending_.empty()) {
    if (deadline.passed()) return false;
    changed_.wait_for(lock, deadline.remaining());
  }
  return true;
}

void StoreNotifier::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return !pending_.empty() || stopping_; });
    if (pending_.empty()) return;
    const std::function<void()> message = pending_.front();
    lock.unlock();
    message();
    lock.lock();
    pending_.pop_front();
    changed_.notify_all();
  }
}

}  // namespace lockstep
