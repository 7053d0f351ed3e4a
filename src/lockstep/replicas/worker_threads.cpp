#include "lockstep/replicas/worker_threads.h"

#include <atomic>
#include <cassert>
#include <chrono>
#include <cstdint>
#include <optional>
#include <thread>

#include "lockstep/base/futex.h"
#include "lockstep/base/processor/cpu_mask.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/base/spin.h"

namespace lockstep {
namespace {

using Word = std::atomic<std::uint32_t>;

// The futex wakes a sleeping thread; the limit is there because every wait has one.
constexpr std::chrono::seconds kLongestSleep{10};
constexpr std::chrono::microseconds kSpin{50};
constexpr int kTurnsPerClock = 64;

// Waits until `word` is no longer `seen`. @return  its new value
std::uint32_t await_change(Word& word, std::uint32_t seen, std::chrono::nanoseconds spin) {
  const auto end = std::chrono::steady_clock::now() + spin;
  for (int turn = 1; spin.count() > 0; ++turn) {
    const std::uint32_t now = word.load(std::memory_order_acquire);
    if (now != seen) return now;
    relax_cpu();
    if (turn % kTurnsPerClock == 0 && std::chrono::steady_clock::now() >= end) break;
  }
  while (true) {
    const std::uint32_t now = word.load(std::memory_order_acquire);
    if (now != seen) return now;
    futex_wait(word, seen, kLongestSleep);
  }
}

void publish(Word& word, std::uint32_t value) {
  word.store(value, std::memory_order_release);
  futex_wake_all(word);
}

thread_local bool is_in_work = false;

}  // namespace

// One thread. `asked_` counts the pieces of work that it was given, `done_` those that it has done.
class alignas(64) WorkerThreads::Worker {
 public:
  Worker(std::size_t number, const WorkerThreadsOptions& options, std::chrono::nanoseconds spin) : spin_(spin) {
    thread_ = std::thread([this, number, &options] {
      if (!options.cores.empty()) CpuMask(options.cores[number]).bind_this_thread();
      if (options.on_start) options.on_start(number);
      serve(number);
    });
  }
  ~Worker() {
    work_ = nullptr;
    publish(asked_, asked_.load(std::memory_order_relaxed) + 1);
    thread_.join();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void start(const std::function<void(std::size_t)>& work) {
    work_ = &work;
    publish(asked_, asked_.load(std::memory_order_relaxed) + 1);
  }
  void wait() {
    const std::uint32_t target = asked_.load(std::memory_order_relaxed);
    if (done_.load(std::memory_order_acquire) != target) await_change(done_, target - 1, spin_);
  }

 private:
  void serve(std::size_t number) {
    is_in_work = true;
    for (std::uint32_t seen = 0;;) {
      seen = await_change(asked_, seen, spin_);
      if (work_ == nullptr) return;
      (*work_)(number);
      publish(done_, seen);
    }
  }

  const std::chrono::nanoseconds spin_;
  const std::function<void(std::size_t)>* work_ = nullptr;  // written by whoever changes asked_ next
  alignas(64) Word asked_{0};
  alignas(64) Word done_{0};
  std::thread thread_;
};

// Keeps the caller on its cores while it computes beside pinned threads. Otherwise the kernel would let it share a core
// with one of them for some milliseconds before moving it.
class WorkerThreads::PinnedCaller {
 public:
  explicit PinnedCaller(const WorkerThreadsOptions& options) {
    if (options.cores.empty()) return;
    before_ = CpuMask::of(0);
    if (before_) CpuMask(options.cores[0]).bind_this_thread();
  }
  ~PinnedCaller() {
    if (before_) before_->bind_this_thread();
  }
  PinnedCaller(const PinnedCaller&) = delete;
  PinnedCaller& operator=(const PinnedCaller&) = delete;

 private:
  std::optional<CpuMask> before_;
};

WorkerThreads::WorkerThreads(std::size_t members, WorkerThreadsOptions options) : options_(std::move(options)) {
  assert(members > 0 && (options_.cores.empty() || options_.cores.size() >= members));
  // If members share cores, a spinning member takes the core from one that has work.
  const bool has_core_each = members <= static_cast<std::size_t>(available_cores());
  const std::chrono::nanoseconds spin = has_core_each ? kSpin : std::chrono::nanoseconds(0);
  for (std::size_t number = 1; number < members; ++number) {
    workers_.push_back(std::make_unique<Worker>(number, options_, spin));
  }
}

WorkerThreads::~WorkerThreads() = default;

void WorkerThreads::run(std::size_t parts, const std::function<void(std::size_t)>& work) {
  assert(parts <= members());
  if (is_in_work || parts <= 1) {
    for (std::size_t part = 0; part < parts; ++part) work(part);
    return;
  }
  const std::lock_guard<std::mutex> lock(running_);
  for (std::size_t part = 1; part < parts; ++part) workers_[part - 1]->start(work);
  is_in_work = true;
  {
    const PinnedCaller pinned(options_);
    work(0);
  }
  is_in_work = false;
  for (std::size_t part = 1; part < parts; ++part) workers_[part - 1]->wait();
}

}  // namespace lockstep
