#pragma once

#include <vector>

#include "lockstep/launch/plan.h"

namespace lockstep {

/// The cores that the ranks of one node share.
struct NodeCores {
  std::vector<int> cores;  ///< numbers of the usable cores, neighbours in the machine side by side
  int available = 1;       ///< how many at once; fewer than `cores` under a quota or a launcher above
  int threads = 1;         ///< that all ranks together should compute with: one for each physical core
};

/// The cores of this process's affinity mask, ordered by package and physical core, so that a block of them shares
/// caches and memory.
NodeCores node_cores();

/// The cores of each rank: contiguous blocks whose sizes differ by at most one. Empty lists leave the choice to the
/// kernel.
///
/// `Auto` splits only if each rank gets at least two cores. A rank on a single core would have its helper threads, such
/// as those that wait for the network, on that core too: measured with Gloo, a 64 KiB all-reduce then takes 15 times as
/// long. `Auto` does not split under a quota either, which limits time and not cores.
std::vector<std::vector<int>> share_cores(CpuAffinity affinity, const NodeCores& node, int local_ranks);

}  // namespace lockstep
