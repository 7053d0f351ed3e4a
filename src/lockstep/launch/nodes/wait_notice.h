#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "lockstep/base/deadline.h"

namespace lockstep {

/// Tells the user on standard error what this launcher waits for: a second after the wait began, and every minute from
/// then on. Of a wait that is over sooner, as most are, nothing is said.
class WaitNotice {
 public:
  WaitNotice();
  ~WaitNotice();
  WaitNotice(const WaitNotice&) = delete;
  WaitNotice& operator=(const WaitNotice&) = delete;

  /// In place of the wait before, if any.
  /// @param what   says what is waited for when it is to be told, in another thread; nothing is told where it throws an
  ///               Error. Called no more once this object is gone
  /// @param until  when the wait is given up
  void begin(std::function<std::string()> what, Deadline until);
  void begin(const std::string& what, Deadline until);
  void end() { begin(std::function<std::string()>(), Deadline::never()); }

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<std::string()> what_;
  Deadline until_ = Deadline::never();
  Deadline tell_at_ = Deadline::never();
  int waits_ = 0;  // so far: tells one from the next
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace lockstep
