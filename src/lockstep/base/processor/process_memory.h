// How much memory this process holds, as the kernel counts it.
#pragma once

#include <cstdint>

namespace lockstep {

/// Bytes, read from /proc/self/status; what the kernel does not give stays 0.
struct ProcessMemory {
  std::int64_t resident = 0;       ///< pages that are in memory now
  std::int64_t peak_resident = 0;  ///< the most that were at once
  std::int64_t file = 0;           ///< of the resident: pages of files, programs and libraries
  std::int64_t shared = 0;         ///< of the resident: shared memory, in full in each process that touched it
};

/// The figures of this moment; takes some tens of microseconds.
ProcessMemory process_memory();

}  // namespace lockstep
