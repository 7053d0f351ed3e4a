#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// A limit on the memory of some processes together, as a host has one: a control group of the kernel, version 1 or 2.
/// Beyond it the kernel first takes back pages of files, and then kills a process of the group. Needs root. Removed
/// with the object, whose processes must have ended.
class MemoryLimit {
 public:
  /// Why this process may not make one here, as one line for GTEST_SKIP; nothing if it may.
  static std::optional<std::string> why_not();

  /// @throws std::runtime_error  if the kernel refuses
  explicit MemoryLimit(std::int64_t bytes);
  ~MemoryLimit();
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

  /// The command, to be run under the limit with all that it starts.
  std::vector<std::string> on(const std::vector<std::string>& command) const;
  /// The most that the processes have held so far, with pages of files that they have read or written; in bytes.
  std::int64_t peak() const;
  /// Whether the kernel has killed a process because of the limit.
  bool has_killed() const;

 private:
  std::string folder_;
};

}  // namespace lockstep
