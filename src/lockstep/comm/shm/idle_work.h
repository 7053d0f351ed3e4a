#pragma once

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

  /// Runs the bodies of all living objects, unless another thread is doing so.
  static void run_all();

 private:
  std::function<void()> body_;
  HomeProcess home_;
};

}  // namespace lockstep::shm
