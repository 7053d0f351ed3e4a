#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// A control group as a folder.
struct ControlGroup {
  std::string folder;
  int version = 2;  ///< version of the kernel's interface: 1 or 2
};

/// The groups that may limit the processor time of this process: its own group and all above it that are mounted where
/// it can see them, of both versions. Read from /proc/self/cgroup and /proc/self/mountinfo below `root` (see
/// base/processor/core_count.h). Empty if there are none.
std::vector<ControlGroup> cpu_control_groups(const std::string& root);

/// The lines of a file without their line ends, read with the C library only; empty if the file cannot be read.
std::vector<std::string> lines_of_file(const std::string& path);

}  // namespace lockstep
