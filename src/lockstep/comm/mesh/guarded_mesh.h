#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "lockstep/comm/mesh/deadline_guards.h"
#include "lockstep/comm/mesh/mesh.h"

namespace lockstep {

/// What all meshes have in common: the deadlines that guard their operations, and whether and why they are broken.
///
/// Includes no LibTorch and has no source file, because meshes may be in separate modules.
class GuardedMesh : public Mesh {
 public:
  std::uint64_t guard(Deadline deadline) final {
    const std::lock_guard<std::mutex> lock(mutex_);
    return guards_.add(deadline);
  }
  void release_guard(std::uint64_t guard) final {
    const std::lock_guard<std::mutex> lock(mutex_);
    guards_.remove(guard);
  }

  bool broken() const noexcept { return broken_; }
  /// Why operations fail once the mesh is broken.
  MeshError why_broken() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (late_) return MeshError(MeshError::Kind::Timeout, "a deadline passed");
    return MeshError(MeshError::Kind::Broken, "connections were broken here");
  }

 protected:
  void mark_broken() noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    mark_broken_under_lock();
  }
  /// For `act` of look_at_guards.
  void mark_broken_under_lock() noexcept {
    broken_ = true;
    broke_.notify_all();
  }

  /// Calls `act` if a guard's deadline has passed, under the lock, once in the mesh's life, and never after
  /// `mark_broken`. `act` breaks the mesh.
  template <typename Act>
  void look_at_guards(const Act& act) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (broken_ || late_) return;
    late_ = guards_.any_passed();
    if (late_) act();
  }
  /// For an operation that cannot succeed, because the ranks disagree: the supervisor will find that out, and break the
  /// mesh. @param look  called at intervals  @throws MeshError  once the mesh is broken
  template <typename Look>
  [[noreturn]] void throw_once_broken(const Look& look) {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!broken_) {
      lock.unlock();
      look();
      lock.lock();
      broke_.wait_for(lock, std::chrono::milliseconds(50), [this] { return broken_.load(); });
    }
    lock.unlock();
    throw why_broken();
  }

 private:
  std::mutex mutex_;  // guards the members below
  std::condition_variable broke_;
  DeadlineGuards guards_;
  bool late_ = false;                // a deadline passed
  std::atomic<bool> broken_{false};  // read without the lock
};

}  // namespace lockstep
