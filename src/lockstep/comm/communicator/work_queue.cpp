#include "lockstep/comm/communicator/work_queue.h"

#include <chrono>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/start_thread.h"
#include "lockstep/comm/timed_work.h"

namespace lockstep {

class WorkQueue::Item : public TimedWork {
 public:
  explicit Item(std::function<void()> body) : body_(std::move(body)) {}

  /// Returns the exception of the body. Call `finish` after it.
  std::exception_ptr run() {
    const auto start = std::chrono::steady_clock::now();
    std::exception_ptr failure;
    try {
      body_();
    } catch (...) {
      failure = std::current_exception();
    }
    const auto end = std::chrono::steady_clock::now();
    seconds_ = std::chrono::duration<double>(end - start).count();
    ended_ns_ = std::chrono::nanoseconds(end.time_since_epoch()).count();
    body_ = nullptr;  // releases the tensors before the waiter continues
    return failure;
  }

  /// Replaces `run` and `finish`: releases what the body holds now, while its communicator still exists.
  void abandon(std::exception_ptr failure) {
    body_ = nullptr;
    finish(std::move(failure));
  }

  void finish(std::exception_ptr failure) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      failure_ = std::move(failure);
      done_ = true;
    }
    finished_.notify_all();
  }

  bool is_completed() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return done_;
  }

  void wait() override {
    std::unique_lock<std::mutex> lock(mutex_);
    finished_.wait(lock, [this] { return done_; });
    if (failure_) std::rethrow_exception(failure_);
  }

  double seconds() override { return seconds_; }
  std::int64_t ended_ns() override { return ended_ns_; }

 private:
  std::function<void()> body_;
  std::mutex mutex_;
  std::condition_variable finished_;
  bool done_ = false;
  std::exception_ptr failure_;
  double seconds_ = 0;         // written before done_, read after it
  std::int64_t ended_ns_ = 0;  // as seconds_
};

WorkQueue::~WorkQueue() {
  std::deque<std::shared_ptr<Item>> abandoned;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    abandoned.swap(waiting_);
  }
  changed_.notify_all();
  const auto failure = std::make_exception_ptr(
      Error("the operation was still queued when its communicator was destroyed", "asynchronous operation",
            "wait for every Work before you destroy the communicator"));
  for (const auto& item : abandoned) item->abandon(failure);
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<Work> WorkQueue::push(std::function<void()> body) {
  auto item = std::make_shared<Item>(std::move(body));
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!thread_.joinable()) thread_ = start_thread("runs operations", [this] { run(); });
    waiting_.push_back(item);
    unfinished_.fetch_add(1, std::memory_order_relaxed);
  }
  changed_.notify_all();
  return item;
}

void WorkQueue::run() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const std::shared_ptr<Item> item = waiting_.front();
    waiting_.pop_front();
    lock.unlock();
    const std::exception_ptr failure = item->run();
    // Before the waiter continues: it may check at once whether the queue is idle.
    unfinished_.fetch_sub(1, std::memory_order_release);
    item->finish(failure);
    lock.lock();
  }
}

namespace {

class CompletedWork : public Work {
 public:
  explicit CompletedWork(std::exception_ptr failure) : failure_(std::move(failure)) {}
  bool is_completed() override { return true; }
  void wait() override {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::exception_ptr failure_;
};

}  // namespace

std::shared_ptr<Work> completed_work(std::exception_ptr failure) {
  return std::make_shared<CompletedWork>(std::move(failure));
}

}  // namespace lockstep
