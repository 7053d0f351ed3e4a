#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "lockstep/base/deadline.h"

namespace lockstep {

/// Writes to the job's store in its own thread, one message after the other: the thread that watches ranks and signals
/// must not wait for a server that may not answer.
class StoreNotifier {
 public:
  StoreNotifier();
  /// Returns after all messages are written. Those that were to be written later are dropped.
  ~StoreNotifier();
  StoreNotifier(const StoreNotifier&) = delete;
  StoreNotifier& operator=(const StoreNotifier&) = delete;

  /// @param message  writes to the store; must not throw
  void post(std::function<void()> message);
  /// Posts the message at the time of `due`. Until then it holds up no other message.
  void post_later(Deadline due, std::function<void()> message);
  /// Drops what `post_later` has not posted yet.
  void drop_later_messages();
  /// @return  false if posted messages remain at the deadline
  bool wait_until_done(Deadline deadline);

 private:
  void run();
  void post_what_is_due();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> pending_;  // the first one is being written
  std::multimap<Deadline::Clock::time_point, std::function<void()>> later_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace lockstep
