#include "lockstep/launch/cpu_share.h"

#include <algorithm>
#include <fstream>
#include <tuple>

#include "lockstep/base/topology.h"
#include "lockstep/start/process_threads.h"

namespace lockstep {
namespace {

int topology_number(int core, const std::string& file) {
  std::ifstream in("/sys/devices/system/cpu/cpu" + std::to_string(core) + "/topology/" + file);
  int number = 0;
  return in >> number ? number : 0;
}

}  // namespace

NodeCores node_cores() {
  std::vector<std::tuple<int, int, int>> placed;  // package, physical core, core
  for (const int core : affinity_cores()) {
    placed.emplace_back(topology_number(core, "physical_package_id"), topology_number(core, "core_id"), core);
  }
  std::sort(placed.begin(), placed.end());
  NodeCores node;
  for (const auto& place : placed) node.cores.push_back(std::get<2>(place));
  node.available = cores_to_share();
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
