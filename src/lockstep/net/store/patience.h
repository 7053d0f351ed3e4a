#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "lockstep/base/deadline_extension.h"
#include "lockstep/base/home_process.h"
#include "lockstep/net/store.h"

namespace lockstep {

enum class WorkLog;

/// Lets the ranks of a group wait for one that works alone, as long as its process lives: reading a checkpoint, saving,
/// evaluating.
///
/// A rank that works tells the store so again and again (`LongWork`). A rank that waits reads it there now and then,
/// and while there is news it moves on the deadlines of all waits of the group. A rank that was stopped, or does
/// something else, tells nothing, and the group's timeout counts from what was heard last. One thread does both, from
/// the first need on; where nobody works or waits for long there is none. Thread-safe.
class Patience {
 public:
  /// @param store    of the group, the same for all its ranks
  /// @param timeout  of the group's collectives
  Patience(std::shared_ptr<Store> store, int rank, std::chrono::milliseconds timeout);
  ~Patience();
  Patience(const Patience&) = delete;
  Patience& operator=(const Patience&) = delete;

  /// Of the deadlines of this rank's waits.
  const std::shared_ptr<const DeadlineExtension>& extension() const { return extension_; }
  /// How often ranks tell and look: several times within a timeout. A wait that has lasted for so long is to call
  /// `waiting`.
  std::chrono::milliseconds period() const { return period_; }

  /// This rank waits for others, and has for a while. To be called again while it does; costs next to nothing.
  void waiting();
  /// What a rank that works has told since the last period or two: "rank 0 is saving the model (for 90 s)". Else empty.
  std::string who_works() const;

  /// This rank works from now on, until `end` is called with the number returned. @param what  "saving the model"
  std::uint64_t begin(const std::string& what, WorkLog log);
  void end(std::uint64_t work);

 private:
  struct State;
  void ensure_thread();  // where there is none; under the lock

  const HomeProcess home_;
  const std::chrono::milliseconds period_;
  const std::shared_ptr<State> state_;  // shared with the thread
  const std::shared_ptr<const DeadlineExtension> extension_;
};

}  // namespace lockstep
