#pragma once

#include <functional>

#include "lockstep/base/home_process.h"

namespace lockstep::shm {

/// What threads of this process do while they wait for other ranks, in whatever group of shared memory: they move on
/// what its groups have started. The ranks they wait for may themselves wait for that.
class IdleWork {
 public:
  /// @param body  must not wait for other ranks; called from any thread while this object lives, by one at a time
  explicit IdleWork(std::function<void()> body);
  /// Returns once `body` runs no more.
  ~IdleWork();
  IdleWork(const IdleWork&) = delete;
  IdleWork& operator=(const IdleWork&) = delete;

  /// Runs the bodies of all that live, unless another thread is at it.
  static void run_all();

 private:
  std::function<void()> body_;
  HomeProcess home_;
};

}  // namespace lockstep::shm
