#pragma once

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <random>

namespace fake_gpu {

/// A stream: a thread that does its work in order, each piece after a pause of random length. Two streams have no order
/// among each other but by events, so that a missing wait shows as a wrong value.
class Stream {
 public:
  /// `waits_for_default`: made without cudaStreamNonBlocking, so that it and the device's default stream wait for each
  /// other.
  Stream(int device, bool waits_for_default, unsigned number);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void push(std::function<void()> work);
  bool idle();
  /// Waits until all that was pushed before has been done.
  void wait();
  /// Ends the thread after what was pushed, as cudaStreamDestroy, and then this object.
  void end();

  int device() const { return device_; }
  bool waits_for_default() const { return waits_for_default_; }

 private:
  ~Stream() = default;
  void run();

  const int device_;
  const bool waits_for_default_;
  std::minstd_rand random_;
  std::mutex mutex_;
  std::condition_variable pushed_, done_;
  std::deque<std::function<void()>> queue_;
  unsigned long count_pushed_ = 0, count_done_ = 0;
  bool started_ = false, ending_ = false;
};

Stream* make_stream(int device, bool waits_for_default);
void end_stream(Stream* stream);
/// The stream of a handle; the current device's default stream for 0. Ends the process for cudaStreamPerThread, which
/// is not imitated.
Stream* stream_of(cudaStream_t handle);
/// Pushes work, behind what the default stream's rule asks for.
void push_in_order(Stream* stream, std::function<void()> work);
/// Waits for all streams of a device.
void wait_for_device(int device);

/// The process ends: what is running on streams is waited for, as far as it ends, and nothing more begins.
void stop_streams();
bool streams_are_stopping();

}  // namespace fake_gpu
