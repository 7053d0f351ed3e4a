// How much memory a process of a benchmark holds.
#pragma once

#include <fstream>
#include <string>

namespace lockstep {

/// Megabytes (2^20 bytes) of this process. To add up processes that share pages: the private parts, the largest `file`,
/// and all `shared_part`.
struct ResidentMemory {
  double peak = 0;         ///< largest that was resident at once, everything counted
  double file = 0;         ///< of it, pages of files: programs and libraries, which processes have in common
  double shared = 0;       ///< of it, shared memory, counted in full in each process that touched it
  double shared_part = 0;  ///< the same, a page that n processes have mapped counted as 1/n

  double private_part() const { return peak - file - shared; }
};

/// The figures of /proc/self now; those that the kernel does not give stay 0.
inline ResidentMemory resident_memory() {
  const auto read = [](const char* path, const std::string& key) {
    std::ifstream lines(path);
    for (std::string line; std::getline(lines, line);) {
      if (line.rfind(key, 0) == 0) return std::stod(line.substr(key.size())) / 1024.0;
    }
    return 0.0;
  };
  return {read("/proc/self/status", "VmHWM:"), read("/proc/self/status", "RssFile:"),
          read("/proc/self/status", "RssShmem:"), read("/proc/self/smaps_rollup", "Pss_Shmem:")};
}

}  // namespace lockstep
