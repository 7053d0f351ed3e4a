// How much memory this process holds, as the kernel counts it.
#pragma once

#include <cstdint>

namespace lockstep {

/// Bytes, read from /proc/self/status; a figure that the kernel does not report stays 0.
struct ProcessMemory {
  std::int64_t resident = 0;       ///< pages that are in memory now
  std::int64_t peak_resident = 0;  ///< the most pages that were in memory at once
  std::int64_t file = 0;           ///< part of `resident`: pages of files, programs and libraries
  std::int64_t shared = 0;         ///< part of `resident`: shared memory, counted fully in each process that touched it
};

/// The current figures; takes some tens of microseconds.
ProcessMemory process_memory();

}  // namespace lockstep
