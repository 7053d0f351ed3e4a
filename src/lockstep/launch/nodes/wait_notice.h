#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "lockstep/base/deadline.h"

namespace lockstep {

/// Reports on standard error what this launcher waits for: one second after the wait began, and every minute after
/// that. A wait that ends sooner, as most do, is not reported.
class WaitNotice {
 public:
  WaitNotice();
  ~WaitNotice();
  WaitNotice(const WaitNotice&) = delete;
  WaitNotice& operator=(const WaitNotice&) = delete;

  /// Replaces the previous wait, if any.
  /// @param what  returns what is awaited; called in another thread for each report, and not after this object is gone.
  /// If it throws an Error, that report is skipped
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
  int waits_ = 0;  // number of waits so far: distinguishes one from the next
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace lockstep
