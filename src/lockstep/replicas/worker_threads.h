#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace lockstep {

struct WorkerThreadsOptions {
  /// Cores of each member, the caller's first. The caller is pinned to its cores while it computes, and unpinned
  /// afterwards. Empty: the kernel decides. Else one entry per member.
  std::vector<std::vector<int>> cores;
  std::function<void(std::size_t)> on_start;  ///< runs first in each worker, with its number from 1; must not throw
};

/// A team of threads that live as long as the object and share one piece of work at a time. The caller is member 0.
/// Handing over takes a microsecond while the other members still spin. They do so for some microseconds after each
/// piece of work, and then sleep.
///
/// Any thread may call `run`; calls wait for each other. A call from within a member's work runs its parts one by one.
class WorkerThreads {
 public:
  /// @param members  at least 1; one thread is started for each beyond the caller
  explicit WorkerThreads(std::size_t members, WorkerThreadsOptions options = {});
  /// Ends the threads. No work may be in progress.
  ~WorkerThreads();
  WorkerThreads(const WorkerThreads&) = delete;
  WorkerThreads& operator=(const WorkerThreads&) = delete;

  std::size_t members() const { return workers_.size() + 1; }

  /// Runs `work(i)` for i in [0, parts), with part i on member i, and returns when all parts have ended. `work` must
  /// not throw. @param parts  at most `members()`
  void run(std::size_t parts, const std::function<void(std::size_t)>& work);

 private:
  class Worker;
  class PinnedCaller;

  WorkerThreadsOptions options_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::mutex running_;
};

}  // namespace lockstep
