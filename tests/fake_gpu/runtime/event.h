#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "tests/fake_gpu/runtime/stream.h"

namespace fake_gpu {

/// A point in a stream that is reached once.
class Mark {
 public:
  void set();
  void wait();
  bool is_set();
  std::chrono::steady_clock::time_point time();

 private:
  std::mutex mutex_;
  std::condition_variable reached_;
  std::chrono::steady_clock::time_point time_;
  bool set_ = false;
};

/// An event. Each record replaces the point that it stands for; who waits, waits for the point of that moment: "calls
/// such as cudaEventQuery use the most recently captured state" (CUDA Runtime API, cudaEventRecord).
class Event {
 public:
  Event(int device, bool timing) : device_(device), timing_(timing) {}

  void record(Stream* stream);
  /// The point of the latest record; null before the first.
  std::shared_ptr<Mark> mark();
  int device() const { return device_; }
  bool timing() const { return timing_; }

 private:
  const int device_;
  const bool timing_;
  std::mutex mutex_;
  std::shared_ptr<Mark> mark_;
};

}  // namespace fake_gpu
