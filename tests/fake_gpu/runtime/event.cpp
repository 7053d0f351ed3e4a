#include "tests/fake_gpu/runtime/event.h"

namespace fake_gpu {

void Mark::set() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    set_ = true;
    time_ = std::chrono::steady_clock::now();
  }
  reached_.notify_all();
}

void Mark::wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  reached_.wait(lock, [this] { return set_; });
}

bool Mark::is_set() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return set_;
}

std::chrono::steady_clock::time_point Mark::time() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return time_;
}

void Event::record(Stream* stream) {
  const auto mark = std::make_shared<Mark>();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    mark_ = mark;
  }
  push_in_order(stream, [mark] { mark->set(); });
}

std::shared_ptr<Mark> Event::mark() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return mark_;
}

}  // namespace fake_gpu
