// Measures the memory of a benchmark's process.
#pragma once

#include <fstream>
#include <string>

#include "lockstep/base/processor/process_memory.h"

namespace lockstep {

/// MiB of this process. The total of processes that share pages is the sum of the private parts, the largest `file`,
/// and the sum of `shared_part`.
struct ResidentMemory {
  double peak = 0;         ///< largest resident memory, all kinds together
  double file = 0;         ///< part of it: pages of files (programs and libraries), which processes share
  double shared = 0;       ///< part of it: shared memory, counted fully in each process that touched it
  double shared_part = 0;  ///< shared memory, with a page that n processes have mapped counted as 1/n

  double private_part() const { return peak - file - shared; }
};

/// This process's present figures; those that the kernel does not provide stay 0.
inline ResidentMemory resident_memory() {
  constexpr double kMebibyte = 1 << 20;
  const ProcessMemory memory = process_memory();
  ResidentMemory result{memory.peak_resident / kMebibyte, memory.file / kMebibyte, memory.shared / kMebibyte};
  std::ifstream rollup("/proc/self/smaps_rollup");  // slow: the kernel walks all pages
  const std::string key = "Pss_Shmem:";
  for (std::string line; std::getline(rollup, line);) {
    if (line.rfind(key, 0) == 0) result.shared_part = std::stod(line.substr(key.size())) / 1024;
  }
  return result;
}

}  // namespace lockstep
