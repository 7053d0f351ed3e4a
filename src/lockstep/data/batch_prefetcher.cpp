#include "lockstep/data/batch_prefetcher.h"

#include <fmt/format.h>

#include <cassert>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"

namespace lockstep {

// One batch, from its request until it is taken.
struct BatchPrefetcher::Slot {
  Indices indices;
  Batch batch;
  std::exception_ptr error;
  bool done = false;
};

struct BatchPrefetcher::Shared {
  explicit Shared(Load make) : load(std::move(make)) {}

  const Load load;
  std::mutex mutex;
  std::condition_variable work_came;        // for workers: a slot to fill, or the end
  std::condition_variable slot_filled;      // for take()
  std::condition_variable worker_left;      // for stop()
  std::deque<std::shared_ptr<Slot>> slots;  // oldest first
  std::size_t started = 0;                  // number of `slots` that are filled or being filled
  int workers = 0;
  bool stopping = false;
};

BatchPrefetcher::BatchPrefetcher(int num_workers, Load load, std::chrono::milliseconds stop_timeout)
    : shared_(std::make_shared<Shared>(std::move(load))), stop_timeout_(stop_timeout) {
  for (int i = 0; i < num_workers; ++i) {
    try {
      threads_.emplace_back([shared = shared_] { work(*shared); });
    } catch (const std::system_error& error) {
      stop();
      throw Error(fmt::format("cannot start worker thread {} of {}: {}", i + 1, num_workers, error.what()),
                  "DataLoader", "use fewer workers, or raise the limit of threads (ulimit -u)");
    }
    const std::lock_guard lock(shared_->mutex);
    ++shared_->workers;
  }
}

BatchPrefetcher::~BatchPrefetcher() { stop(); }

void BatchPrefetcher::stop() {
  std::unique_lock lock(shared_->mutex);
  shared_->stopping = true;
  shared_->slots.clear();
  shared_->started = 0;
  shared_->work_came.notify_all();
  const bool all_left = shared_->worker_left.wait_for(lock, stop_timeout_, [this] { return shared_->workers == 0; });
  lock.unlock();
  for (std::thread& thread : threads_) {
    if (all_left) {
      thread.join();
    } else {
      thread.detach();
    }
  }
  threads_.clear();
  if (!all_left) {
    log_warning("DataLoader: a worker did not return from the dataset within {} ms and was left behind",
                stop_timeout_.count());
  }
}

void BatchPrefetcher::submit(Indices indices) {
  auto slot = std::make_shared<Slot>();
  slot->indices = std::move(indices);
  const std::lock_guard lock(shared_->mutex);
  shared_->slots.push_back(std::move(slot));
  shared_->work_came.notify_one();
}

std::size_t BatchPrefetcher::outstanding() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->slots.size();
}

Batch BatchPrefetcher::take(Deadline deadline) {
  std::unique_lock lock(shared_->mutex);
  assert(!shared_->slots.empty());
  const std::shared_ptr<Slot> slot = shared_->slots.front();
  while (!slot->done) {
    if (deadline.passed()) {
      throw TimeoutError("no batch arrived within the loader's timeout", "DataLoader",
                         "raise timeout_s of the loader, or find out why the dataset is slow to read");
    }
    shared_->slot_filled.wait_for(lock, deadline.remaining());
  }
  shared_->slots.pop_front();
  --shared_->started;
  lock.unlock();
  if (slot->error) std::rethrow_exception(slot->error);
  return std::move(slot->batch);
}

void BatchPrefetcher::cancel() {
  const std::lock_guard lock(shared_->mutex);
  shared_->slots.clear();
  shared_->started = 0;
}

void BatchPrefetcher::work(Shared& shared) {
  std::unique_lock lock(shared.mutex);
  for (;;) {
    shared.work_came.wait(lock, [&] { return shared.stopping || shared.started < shared.slots.size(); });
    if (shared.stopping) break;
    const std::shared_ptr<Slot> slot = shared.slots[shared.started++];
    lock.unlock();
    try {
      slot->batch = shared.load(slot->indices);
    } catch (...) {
      slot->error = std::current_exception();
    }
    lock.lock();
    slot->done = true;
    shared.slot_filled.notify_one();
  }
  --shared.workers;
  shared.worker_left.notify_one();
}

}  // namespace lockstep
