#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

#include "lockstep/base/deadline.h"

namespace lockstep {

/// The deadlines that a mesh watches, see Mesh::guard. Not thread-safe: the mesh holds its lock here and while it acts
/// on a deadline that passed.
class DeadlineGuards {
 public:
  std::uint64_t add(Deadline deadline) {
    guards_.emplace(next_, deadline);
    return next_++;
  }
  void remove(std::uint64_t guard) { guards_.erase(guard); }
  bool any_passed() const {
    return std::any_of(guards_.begin(), guards_.end(), [](const auto& entry) { return entry.second.passed(); });
  }

 private:
  std::map<std::uint64_t, Deadline> guards_;
  std::uint64_t next_ = 0;
};

}  // namespace lockstep
