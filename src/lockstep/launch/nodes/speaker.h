#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "lockstep/base/deadline.h"

namespace lockstep {

/// Says things to the job's store in a thread of its own, one after the other: who watches ranks and signals must not
/// wait for a server that may not answer.
class Speaker {
 public:
  Speaker();
  /// After all has been said.
  ~Speaker();
  Speaker(const Speaker&) = delete;
  Speaker& operator=(const Speaker&) = delete;

  /// @param what  must not throw
  void say(std::function<void()> what);
  /// @return  false where that is not so at the deadline
  bool wait_until_said(Deadline deadline);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> to_say_;  // the first is being said
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace lockstep
