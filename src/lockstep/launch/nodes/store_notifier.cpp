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
    later_.clear();
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

void StoreNotifier::post_later(Deadline due, std::function<void()> message) {
  {
    const std::lock_guard lock(mutex_);
    later_.emplace(due.at(), std::move(message));
  }
  changed_.notify_all();
}

void StoreNotifier::drop_later_messages() {
  const std::lock_guard lock(mutex_);
  later_.clear();
}

bool StoreNotifier::wait_until_done(Deadline deadline) {
  std::unique_lock lock(mutex_);
  while (!pending_.empty()) {
    if (deadline.passed()) return false;
    changed_.wait_for(lock, deadline.remaining());
  }
  return true;
}

void StoreNotifier::post_what_is_due() {
  while (!later_.empty() && later_.begin()->first <= Deadline::Clock::now()) {
    pending_.push_back(std::move(later_.begin()->second));
    later_.erase(later_.begin());
  }
}

void StoreNotifier::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    post_what_is_due();
    if (pending_.empty()) {
      if (stopping_) return;
      if (later_.empty()) {
        changed_.wait(lock);
      } else {
        const auto due = later_.begin()->first;  // a copy: the entry may be dropped during the wait
        changed_.wait_until(lock, due);
      }
      continue;
    }
    const std::function<void()> message = pending_.front();
    lock.unlock();
    message();
    lock.lock();
    pending_.pop_front();
    changed_.notify_all();
  }
}

}  // namespace lockstep
