#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "lockstep/detail/comm/work.h"

namespace lockstep {

/// Runs operations one after the other on its own thread. The thread starts with the first operation.
class WorkQueue {
 public:
  WorkQueue() = default;
  /// Waits for the running operation; queued ones fail with an Error.
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  /// Queues `body`; `Work::wait` throws what it throws.
  std::shared_ptr<Work> push(std::function<void()> body);
  /// True if nothing is queued and nothing runs.
  bool idle() const noexcept { return unfinished_.load(std::memory_order_acquire) == 0; }

 private:
  class Item;
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Item>> waiting_;
  std::atomic<int> unfinished_{0};  // waiting ones and the one that runs; read without the lock
  bool stopping_ = false;
  std::thread thread_;
};

/// Work that has already ended: in success, or with `failure`.
std::shared_ptr<Work> completed_work(std::exception_ptr failure = nullptr);

}  // namespace lockstep
