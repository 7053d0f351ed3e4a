#include "lockstep/launch/ranks/cpu_share.h"

#include <algorithm>

#include "lockstep/base/processor/core_count.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/start/process_threads.h"

namespace lockstep {
NodeCores node_cores() {
  NodeCores node;
  node.cores = cores_side_by_side(affinity_cores());
  node.threads = cores_to_share();
  node.available = node.threads < compute_cores() ? node.threads : available_cores();
  return node;
}

std::vector<std::vector<int>> share_cores(CpuAffinity affinity, const NodeCores& node, int local_ranks) {
  const auto ranks = static_cast<std::size_t>(local_ranks);
  const std::size_t cores = node.cores.size();
  std::vector<std::vector<int>> blocks(ranks);
  const bool under_quota = static_cast<std::size_t>(node.available) < cores;
  const bool worthwhile = ranks > 1 && !under_quota && cores >= 2 * ranks;
  if (affinity == CpuAffinity::None || cores < ranks || (affinity == CpuAffinity::Auto && !worthwhile)) return blocks;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::size_t begin = rank * (cores / ranks) + std::min(rank, cores % ranks);
    const std::size_t size = cores / ranks + (rank < cores % ranks ? 1 : 0);
    blocks[rank].assign(node.cores.begin() + static_cast<std::ptrdiff_t>(begin),
                        node.cores.begin() + static_cast<std::ptrdiff_t>(begin + size));
  }
  return blocks;
}

}  // namespace lockstep
