#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "lockstep/base/files/unique_fd.h"

namespace lockstep {

/// Why a trace ends.
enum class TraceEnd : int {
  None,
  Window,    ///< its steps were made
  Finished,  ///< the program says so, or ends
  Failure,   ///< a collective failed
  Signal,    ///< SIGTERM: a launcher ends this rank, perhaps because another one failed
};

/// A thread that waits until a trace ends, so that its file is written beside the training, and also if the training
/// cannot continue. While it lives, SIGTERM ends the process only after the trace was written, unless the program
/// handles SIGTERM itself; and so does an exception that nobody catches, if the trace has ended. One at a time.
class TraceWatch {
 public:
  /// @param on_end  called once, in the thread, unless the watch is destroyed before; must not throw
  explicit TraceWatch(std::function<void(TraceEnd)> on_end);
  /// Waits for a call that runs.
  ~TraceWatch();
  TraceWatch(const TraceWatch&) = delete;
  TraceWatch& operator=(const TraceWatch&) = delete;

  /// Does not block, and is safe in a signal handler.
  void notify(TraceEnd end) noexcept;

  /// Waits until `on_end` has returned, if the trace has ended; but not for ever.
  void await_end() noexcept;

 private:
  void run();

  std::function<void(TraceEnd)> on_end_;
  UniqueFd wake_;
  std::atomic<TraceEnd> end_{TraceEnd::None};
  std::atomic<bool> quits_{false};
  std::mutex mutex_;
  std::condition_variable ended_;
  bool has_ended_ = false;  // under mutex_: `on_end` has returned
  bool handles_signal_ = false;
  std::thread thread_;
};

}  // namespace lockstep
