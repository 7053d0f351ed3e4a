#pragma once

#include <sched.h>
#include <sys/types.h>

#include <optional>
#include <vector>

namespace lockstep {

/// A set of cores in the kernel's form, for machines of any size: a plain cpu_set_t ends at 1024.
class CpuMask {
 public:
  explicit CpuMask(const std::vector<int>& cores);

  /// The kernel call that reads a mask: sched_getaffinity(2), or a replacement in a test.
  using Question = int (*)(pid_t process, std::size_t bytes, cpu_set_t* mask);

  /// The affinity mask of a process; 0 means the calling thread. Nothing if the call fails.
  static std::optional<CpuMask> of(pid_t process, Question ask = &::sched_getaffinity);

  /// Cores that the set has room for, a multiple of 64. The kernel determines it for masks from `of`, so processes
  /// under one kernel get equal values.
  int room() const noexcept { return static_cast<int>(sets_.size() * CPU_SETSIZE); }

  /// The numbers of the cores, ascending.
  std::vector<int> cores() const;

  /// Binds the calling thread to these cores; false if the kernel refuses. Allocates nothing, so a child may call it
  /// between fork and exec.
  bool bind_this_thread() const noexcept;

 private:
  CpuMask() = default;
  std::size_t bytes() const noexcept { return sets_.size() * sizeof(cpu_set_t); }

  std::vector<cpu_set_t> sets_;  ///< one long set: the words of the elements follow each other without a gap
};

}  // namespace lockstep
