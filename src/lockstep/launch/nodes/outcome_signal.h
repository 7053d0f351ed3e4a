#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "lockstep/base/files/unique_fd.h"

namespace lockstep {

/// The outcome of one start of the ranks of all nodes.
struct Outcome {
  bool success = false;
  bool is_final = false;  ///< the ranks are not started again
  bool has_time = false;  ///< nothing has failed: ranks may take time to end
  std::string story;      ///< what failed first, or why the ranks are started again
  /// The job may run on other hosts, without this one: what its ranks wrote from now on would meet what those write.
  bool runs_elsewhere = false;

  static constexpr int kNoRestarts = 0;  ///< as `max_restarts`: the ranks would fail alike

  /// After a failure that `story` describes: final if all restarts are used up.
  static Outcome of_failure(const std::string& story, int restarts, int max_restarts);
};

/// Passes an outcome from the thread that learns it to an event loop. The first one counts.
class OutcomeSignal {
 public:
  /// @throws Error  if the kernel has no descriptor left
  OutcomeSignal();
  /// Readable once there is an outcome.
  int fd() const { return event_.get(); }
  void publish(const Outcome& outcome);
  std::optional<Outcome> get() const;
  /// Drops the outcome.
  void reset();

 private:
  UniqueFd event_;
  mutable std::mutex mutex_;
  std::optional<Outcome> outcome_;
};

}  // namespace lockstep
