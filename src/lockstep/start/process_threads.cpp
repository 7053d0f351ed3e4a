#include "lockstep/start/process_threads.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "lockstep/base/processor/core_count.h"
#include "lockstep/base/processor/cpu_mask.h"
#include "lockstep/start/start_variables.h"

namespace lockstep {
namespace {

constexpr long kMostRanks = 1 << 20;

// A positive number, or 0 for anything else. An invalid text is reported later, when the program joins its peers,
// because this may run before main.
int positive(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr) return 0;
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  return end == text || *end != '\0' || value < 1 || value > kMostRanks ? 0 : static_cast<int>(value);
}

// The tasks of node `node` in a list such as "4(x2),3": 4, 4, 3. 0 if the list has no entry for the node.
int tasks_of_node(const char* list, long node) {
  while (*list != '\0') {
    char* end = nullptr;
    const long tasks = std::strtol(list, &end, 10);
    if (end == list || tasks < 1 || tasks > kMostRanks) return 0;
    long nodes = 1;
    if (std::strncmp(end, "(x", 2) == 0) {
      nodes = std::strtol(end + 2, &end, 10);
      if (nodes < 1 || *end++ != ')') return 0;
    }
    if (node < nodes) return static_cast<int>(tasks);
    node -= nodes;
    if (*end != ',') return 0;
    list = end + 1;
  }
  return 0;
}

bool is_task_of_srun() { return std::getenv("SLURM_STEP_NUM_TASKS") != nullptr; }

int tasks_of_srun() {
  const char* const list = std::getenv("SLURM_STEP_TASKS_PER_NODE");
  const char* const node = std::getenv("SLURM_NODEID");
  if (!is_task_of_srun() || list == nullptr || node == nullptr) return 0;
  return tasks_of_node(list, std::max(0L, std::strtol(node, nullptr, 10)));
}

// A quota belongs to the container, and therefore limits the launcher too.
int cores_of_launcher() {
  const auto mask = CpuMask::of(::getppid());
  return mask ? std::min(physical_cores(mask->cores()), quota_cores()) : 0;
}

CoresInReach cores_in_reach() {
  CoresInReach cores;
  cores.own = compute_cores();
  cores.launcher = cores_of_launcher();
  if (is_task_of_srun()) {
    cores.allotted = positive("SLURM_CPUS_ON_NODE");
    cores.per_rank = positive("SLURM_CPUS_PER_TASK");
  }
  return cores;
}

}  // namespace

int ranks_by_launcher() {
  for (const char* name : {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}) {
    if (const int ranks = positive(name)) return ranks;
  }
  return tasks_of_srun();
}

int ranks_on_host() { return std::max(1, ranks_by_launcher()); }

int threads_for(const CoresInReach& cores, int ranks) {
  if (cores.per_rank > 0) return std::min(cores.per_rank, cores.own);
  const int reached = std::max(cores.own, cores.launcher);
  const int all = cores.allotted > 0 ? std::min(cores.allotted, reached) : reached;
  return std::clamp(all / ranks, 1, std::max(1, cores.own));
}

int threads_of_process() { return threads_for(cores_in_reach(), ranks_on_host()); }

int threads_beside(const std::vector<int>& own, const std::vector<std::vector<int>>& others, const std::string& root) {
  if (own.empty()) return 1;
  double shares = 0;
  for (const int core : own) {
    const auto uses_it = [core](const std::vector<int>& cores) {
      return std::find(cores.begin(), cores.end(), core) != cores.end();
    };
    shares += 1.0 / static_cast<double>(1 + std::count_if(others.begin(), others.end(), uses_it));
  }
  constexpr double kRounding = 1e-6;  // three thirds are one core
  const double physical = shares * physical_cores(own, root) / static_cast<double>(own.size());
  const int quota = quota_cores(root) / static_cast<int>(others.size() + 1);
  return std::max(1, std::min(static_cast<int>(physical + kRounding), quota));
}

int cores_to_share() {
  const int own_share = inherited_threads();
  return own_share > 0 ? std::min(own_share, compute_cores()) : compute_cores();
}

}  // namespace lockstep
