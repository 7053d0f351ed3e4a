// The most memory that a piece of code has.
#pragma once

#include <fstream>

#include "lockstep/base/processor/heap.h"
#include "tests/support/memory/kernel_memory.h"

namespace lockstep {

/// The most private memory that this process has had since the object was made, beyond what it had then. Pages of
/// libraries do not count: the kernel maps up to 2 MiB of one where a single instruction of it runs. What was freed
/// does count if malloc keeps it: see `give_tensors_mappings`.
class PeakMemory {
 public:
  PeakMemory() {
    release_freed_memory();  // nothing that was freed before is used again
    is_counted_ = static_cast<bool>(std::ofstream("/proc/self/clear_refs") << 5 << std::flush);
    before_ = mib_by_kernel("status", "RssAnon");
  }

  /// Negative if the kernel does not say.
  double mib() const {
    const double most = mib_by_kernel("status", "VmHWM");
    const double not_private = mib_by_kernel("status", "RssFile") + mib_by_kernel("status", "RssShmem");
    return !is_counted_ || before_ < 0 || most < 0 ? -1 : most - not_private - before_;
  }

 private:
  bool is_counted_ = false;
  double before_ = 0;
};

}  // namespace lockstep
