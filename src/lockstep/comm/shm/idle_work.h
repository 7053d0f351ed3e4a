#pragma once

#include <atomic>
#include <functional>

#include "lockstep/base/home_process.h"

namespace lockstep::shm {

/// The work that threads of this process do while they wait for other ranks, in any group over shared memory: they
/// advance what its groups have started. The ranks for which they wait may themselves wait for that.
class IdleWork {
 public:
  /// @param body  must not wait for other ranks; called from any thread while this object lives, by one thread at a
  /// time
  explicit IdleWork(std::function<void()> body);
  /// Returns once `body` no longer runs.
  ~IdleWork();
  IdleWork(const IdleWork&) = delete;
  IdleWork& operator=(const IdleWork&) = delete;

  /// Counts the bodies that have something to do: a group calls it when its first operation becomes pending, and when
  /// its last one has ended.
  static void begin_pending() noexcept { pending().fetch_add(1, std::memory_order_relaxed); }
  static void end_pending() noexcept { pending().fetch_sub(1, std::memory_order_relaxed); }

  /// Runs the bodies of all living objects, unless another thread is doing so. A wait calls it at each of its turns, so
  /// it takes no lock if nothing is pending in any group.
  static void run_all() {
    if (pending().load(std::memory_order_relaxed) != 0) run_each();
  }

 private:
  static std::atomic<int>& pending() noexcept {
    static std::atomic<int> groups{0};
    return groups;
  }
  static void run_each();

  std::function<void()> body_;
  HomeProcess home_;
};

}  // namespace lockstep::shm
