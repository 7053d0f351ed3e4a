#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "lockstep/base/deadline.h"

namespace lockstep {

/// Writes to the job's store in its own thread, one message after the other: the thread that watches ranks and signals
/// must not wait for a server that may not answer.
class StoreNotifier {
 public:
  StoreNotifier();
  /// Returns after all messages are written.
  ~StoreNotifier();
  StoreNotifier(const StoreNotifier&) = delete;
  StoreNotifier& operator=(const StoreNotifier&) = delete;

  /// @param message  writes to the store; must not throw
  void post(std::function<void()> message);
  /// @return  false if messages remain at the deadline
  bool wait_until_done(Deadline deadline);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> pending_;  // the first one is being written
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace lockstep
