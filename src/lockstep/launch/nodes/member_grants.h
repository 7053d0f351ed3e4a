#pragma once

#include <mutex>
#include <optional>
#include <vector>

#include "lockstep/base/files/unique_fd.h"

namespace lockstep {

/// Passes the numbers of processes that may take lost ranks' places from the thread that learns them to an event loop.
class MemberGrants {
 public:
  /// @throws Error  if the kernel has no descriptor left
  MemberGrants();
  /// Readable while there are answers.
  int fd() const { return event_.get(); }
  /// @param member  nothing: no restart is left
  void push(std::optional<int> member);
  /// The answers since the last call, in the order of `push`.
  std::vector<std::optional<int>> take();

 private:
  UniqueFd event_;
  std::mutex mutex_;
  std::vector<std::optional<int>> answers_;
};

}  // namespace lockstep
