#pragma once

#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/parallel/fused/recovery/job_memory_map.h"

namespace lockstep {

/// Which ranks of a group have which job's memory in common: those that one launcher has started. For an update that
/// survives lost ranks they are a host, also if another launcher of the same machine has started others. Equal on all
/// ranks, but for `rank`.
struct MemoryHosts {
  /// Collective. @param job  of this rank; null: it has none
  static MemoryHosts of(Communicator& communicator, const JobMemoryMap* job);

  int rank = 0;
  bool all_have = true;                 ///< every rank has such memory
  bool all_round_alike = true;          ///< an optimizer's kernels have equal bits on all ranks
  std::vector<std::vector<int>> ranks;  ///< by host, ascending; the hosts in the order of their first rank
  std::vector<int> host_of;             ///< by rank
  std::vector<int> place_of;            ///< by rank: place among the ranks of its host

  int count() const { return static_cast<int>(ranks.size()); }
  int host() const { return host_of[static_cast<std::size_t>(rank)]; }
  int place() const { return place_of[static_cast<std::size_t>(rank)]; }
  const std::vector<int>& here() const { return ranks[static_cast<std::size_t>(host())]; }
  int ranks_here() const { return static_cast<int>(here().size()); }
};

}  // namespace lockstep
