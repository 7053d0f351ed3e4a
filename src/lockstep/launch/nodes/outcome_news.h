#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "lockstep/base/files/unique_fd.h"

namespace lockstep {

/// What became of the ranks of all nodes, from one start to the end.
struct Outcome {
  bool well = false;
  bool is_final = false;  ///< they are not started again
  bool has_time = false;  ///< nothing has failed: ranks may take their time to end
  std::string story;      ///< of what failed first, or why they are started again

  /// After a failure of which `story` tells: final where all restarts are used up.
  static Outcome of_failure(const std::string& story, int restarts, int max_restarts);
};

/// Hands an outcome from the thread that learns it to an event loop. The first one counts.
class OutcomeNews {
 public:
  /// @throws Error  if the kernel has no descriptor left
  OutcomeNews();
  /// Readable once there is an outcome.
  int fd() const { return event_.get(); }
  void publish(const Outcome& outcome);
  std::optional<Outcome> get() const;
  /// Forgets it.
  void reset();

 private:
  UniqueFd event_;
  mutable std::mutex mutex_;
  std::optional<Outcome> outcome_;
};

}  // namespace lockstep
