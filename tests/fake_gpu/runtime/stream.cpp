// Streams. "Operations within the same stream are ordered; operations in different streams may run in any order or
// concurrently" (CUDA C++ Programming Guide, "Streams"). The legacy default stream "implicitly synchronizes with all
// other streams in the same context except for non-blocking streams" (CUDA Runtime API, "Stream synchronization
// behavior").
#include "tests/fake_gpu/runtime/stream.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <memory>
#include <set>
#include <thread>

#include "tests/fake_gpu/runtime/context.h"
#include "tests/fake_gpu/runtime/event.h"
#include "tests/fake_gpu/runtime/settings.h"

namespace fake_gpu {
namespace {

struct AllStreams {
  std::mutex mutex;
  std::set<Stream*> live;
  std::map<int, Stream*> defaults;
  unsigned made = 0;
};

// At the end of the process: no stream begins another piece of work.
std::atomic<bool> stopping{false};
std::atomic<int> working{0};

AllStreams& all_streams() {
  static auto* const all = new AllStreams;
  return *all;
}

Stream* default_stream(int device) {
  AllStreams& all = all_streams();
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    const auto found = all.defaults.find(device);
    if (found != all.defaults.end()) return found->second;
    // Rank and device make the numbers of the pauses; ranks are processes that see all devices.
    return all.defaults[device] = new Stream(device, false, static_cast<unsigned>(device));
  }
}

// Makes `stream` wait for all that `other` has got so far.
void wait_for_stream(Stream* stream, Stream* other) {
  const auto mark = std::make_shared<Mark>();
  other->push([mark] { mark->set(); });
  stream->push([mark] { mark->wait(); });
}

std::vector<Stream*> streams_of(int device) {
  AllStreams& all = all_streams();
  const std::lock_guard<std::mutex> lock(all.mutex);
  std::vector<Stream*> found;
  for (Stream* stream : all.live) {
    if (stream->device() == device) found.push_back(stream);
  }
  return found;
}

}  // namespace

Stream::Stream(int device, bool waits_for_default, unsigned number)
    : device_(device), waits_for_default_(waits_for_default), random_(settings().seed * 7919 + number * 31 + 17) {}

void Stream::push(std::function<void()> work) {
  const std::lock_guard<std::mutex> lock(mutex_);
  queue_.push_back(std::move(work));
  ++count_pushed_;
  if (!started_) {
    started_ = true;
    std::thread([this] { run(); }).detach();
  }
  pushed_.notify_one();
}

bool Stream::idle() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return count_done_ == count_pushed_;
}

void Stream::wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  const unsigned long last = count_pushed_;
  // When the process ends, what is queued is left, and nobody would wake this thread.
  while (!stopping && !done_.wait_for(lock, std::chrono::milliseconds(10), [&] { return count_done_ >= last; })) {
  }
}

void Stream::end() {
  std::unique_lock<std::mutex> lock(mutex_);
  ending_ = true;
  if (started_) {
    pushed_.notify_one();
    return;
  }
  lock.unlock();
  delete this;
}

void Stream::run() {
  ::pthread_setname_np(::pthread_self(), "fake-stream");
  set_current_device(device_);
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    pushed_.wait(lock, [&] { return ending_ || !queue_.empty(); });
    if (queue_.empty()) break;
    std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    if (const int pause = settings().pause_us) {
      std::this_thread::sleep_for(std::chrono::microseconds(random_() % static_cast<unsigned>(pause)));
    }
    ++working;
    if (stopping) {  // LibTorch is about to be unloaded
      --working;
      return;
    }
    try {
      work();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "[fake GPU] a kernel failed on device %d: %s\n", device_, error.what());
      break_device(cudaErrorAssert);
    }
    work = nullptr;
    --working;
    lock.lock();
    ++count_done_;
    done_.notify_all();
  }
  lock.unlock();
  delete this;
}

Stream* make_stream(int device, bool waits_for_default) {
  AllStreams& all = all_streams();
  const std::lock_guard<std::mutex> lock(all.mutex);
  auto* const stream = new Stream(device, waits_for_default, 100 + all.made++);
  all.live.insert(stream);
  return stream;
}

void end_stream(Stream* stream) {
  AllStreams& all = all_streams();
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    all.live.erase(stream);
  }
  stream->end();
}

Stream* stream_of(cudaStream_t handle) {
  if (handle == cudaStreamPerThread) {
    std::fprintf(stderr, "[fake GPU] cudaStreamPerThread is not imitated\n");
    std::abort();
  }
  if (handle == nullptr || handle == cudaStreamLegacy) return default_stream(current_device());
  return reinterpret_cast<Stream*>(handle);
}

void push_in_order(Stream* stream, std::function<void()> work) {
  Stream* const first = default_stream(stream->device());
  if (stream == first) {
    for (Stream* other : streams_of(stream->device())) {
      if (other->waits_for_default()) wait_for_stream(stream, other);
    }
  } else if (stream->waits_for_default()) {
    wait_for_stream(stream, first);
  }
  stream->push(std::move(work));
}

bool streams_are_stopping() { return stopping; }

void stop_streams() {
  stopping = true;
  // What computes ends soon. What waits for another rank may never end: it asks `streams_are_stopping`.
  for (int i = 0; i < 5000 && working > 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void wait_for_device(int device) {
  for (Stream* stream : streams_of(device)) stream->wait();
  default_stream(device)->wait();
}

}  // namespace fake_gpu
