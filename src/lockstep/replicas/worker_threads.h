#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace lockstep {

struct WorkerThreadsOptions {
  /// Cores of each member, the caller's first: it is pinned to them while it computes, and goes back after. Empty: the
  /// kernel decides. Else as many as members.
  std::vector<std::vector<int>> cores;
  std::function<void(std::size_t)> on_start;  ///< runs first in each worker thread, with its number from 1; no throw
};

/// A team of threads that live as long as the object and do one piece of work together again and again. The caller is
/// member 0. Handing over takes a microsecond while the others still look out for work, which they do for some
/// microseconds after the last; then they sleep.
///
/// Any thread may call `run`; calls wait for each other. A call from within a member's work runs its parts one by one.
class WorkerThreads {
 public:
  /// @param members  at least 1; one thread is started for each beyond the caller
  explicit WorkerThreads(std::size_t members, WorkerThreadsOptions options = {});
  /// Ends the threads; no work may be going on.
  ~WorkerThreads();
  WorkerThreads(const WorkerThreads&) = delete;
  WorkerThreads& operator=(const WorkerThreads&) = delete;

  std::size_t members() const { return workers_.size() + 1; }

  /// Runs `work(i)` for i in [0, parts) with part i on member i, and returns when all have ended. `work` must not
  /// throw. @param parts  at most `members()`
  void run(std::size_t parts, const std::function<void(std::size_t)>& work);

 private:
  class Worker;
  class PinnedCaller;

  WorkerThreadsOptions options_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::mutex running_;
};

}  // namespace lockstep
