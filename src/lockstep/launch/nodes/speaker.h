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
class Speaker {
 public:
  Speaker();
  /// Returns after all messages are written.
  ~Speaker();
  Speaker(const Speaker&) = delete;
  Speaker& operator=(const Speaker&) = delete;

  /// @param what  must not throw
  void say(std::function<void()> what);
  /// @return  false if messages remain at the deadline
  bool wait_until_said(Deadline deadline);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> to_say_;  // the first one is being written
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace lockstep
