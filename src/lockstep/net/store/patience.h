#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "lockstep/base/home_process.h"
#include "lockstep/detail/base/deadline_extension.h"
#include "lockstep/net/store.h"

namespace lockstep {

enum class WorkLog;

/// Lets the ranks of a group wait for one that works alone (reads a checkpoint, saves, evaluates) as long as its
/// process lives.
///
/// A working rank reports to the store at intervals (`LongWork`). A waiting rank reads these reports at intervals, and
/// while there are new ones it moves the deadlines of all waits of the group later. A rank that was stopped, or does
/// something else, reports nothing, so the group's timeout counts from its last report. One thread does both, from the
/// first need on; if no rank works or waits for long, there is no thread. Thread-safe.
class Patience {
 public:
  /// @param store  the group's store, one for all its ranks
  /// @param timeout  of the group's collectives
  Patience(std::shared_ptr<Store> store, int rank, std::chrono::milliseconds timeout);
  ~Patience();
  Patience(const Patience&) = delete;
  Patience& operator=(const Patience&) = delete;

  /// The extension of the deadlines of this rank's waits.
  const std::shared_ptr<const DeadlineExtension>& extension() const { return extension_; }
  /// How often ranks report and look: several times within a timeout. A wait that has lasted for this long must call
  /// `waiting`.
  std::chrono::milliseconds period() const { return period_; }

  /// This rank waits for others, and has for a while. Call it again while the wait lasts; costs next to nothing.
  void waiting();
  /// The report of a working rank within the last period or two: "rank 0 is saving the model (for 90 s)". Otherwise
  /// empty.
  std::string who_works() const;

  /// Marks this rank as working from now on, until `end` is called with the returned number. @param what  "saving the
  /// model"
  std::uint64_t begin(const std::string& what, WorkLog log);
  void end(std::uint64_t work);

 private:
  struct State;
  void ensure_thread();  // if there is none; call it under the lock

  const HomeProcess home_;
  const std::chrono::milliseconds period_;
  const std::shared_ptr<State> state_;  // shared with the thread
  const std::shared_ptr<const DeadlineExtension> extension_;
};

}  // namespace lockstep
