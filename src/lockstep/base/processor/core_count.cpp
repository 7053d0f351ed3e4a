#include "lockstep/base/processor/core_count.h"

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <set>
#include <tuple>

#include "lockstep/base/processor/control_group.h"
#include "lockstep/base/processor/topology.h"

namespace lockstep {
namespace {

std::string topology_file(const std::string& root, int core, const char* name) {
  return root + "/sys/devices/system/cpu/cpu" + std::to_string(core) + "/topology/" + name;
}

std::string first_line_of(const std::string& path) {
  const std::vector<std::string> lines = lines_of_file(path);
  return lines.empty() ? "" : lines.front();
}

// "0,64" or "0-1", ascending; empty if it cannot be read.
std::vector<int> numbers_of(const std::string& list) {
  constexpr long kMostCores = 1 << 20;
  std::vector<int> numbers;
  const char* at = list.c_str();
  while (*at != '\0') {
    char* end = nullptr;
    const long first = std::strtol(at, &end, 10);
    long last = first;
    if (end == at) return {};
    if (*end == '-') last = std::strtol(at = end + 1, &end, 10);
    if (end == at || first < 0 || last < first || last > kMostCores) return {};
    for (long number = first; number <= last; ++number) numbers.push_back(static_cast<int>(number));
    if (*end != '\0' && *end != ',') return {};
    at = *end == ',' ? end + 1 : end;
  }
  return numbers;
}

// Values such as "200000 100000"; "max" or -1 means no quota.
int whole_cores(long long quota, long long period) {
  if (quota <= 0 || period <= 0) return INT_MAX;
  return static_cast<int>(std::min<long long>(INT_MAX, quota / period + (quota % period > 0 ? 1 : 0)));
}

int quota_of(const ControlGroup& group) {
  long long quota = 0;
  long long period = 0;
  if (group.version == 2) {
    const std::string line = first_line_of(group.folder + "/cpu.max");
    return std::sscanf(line.c_str(), "%lld %lld", &quota, &period) == 2 ? whole_cores(quota, period) : INT_MAX;
  }
  quota = std::atoll(first_line_of(group.folder + "/cpu.cfs_quota_us").c_str());
  period = std::atoll(first_line_of(group.folder + "/cpu.cfs_period_us").c_str());
  return whole_cores(quota, period);
}

}  // namespace

int quota_cores(const std::string& root) {
  int least = INT_MAX;
  for (const ControlGroup& group : cpu_control_groups(root)) least = std::min(least, quota_of(group));
  return least;
}

int physical_cores(const std::vector<int>& cores, const std::string& root) {
  std::set<int> counted;
  int physical = 0;
  for (const int core : cores) {
    if (!counted.insert(core).second) continue;
    ++physical;
    for (const int sibling : numbers_of(first_line_of(topology_file(root, core, "thread_siblings_list")))) {
      counted.insert(sibling);
    }
  }
  return physical;
}

std::vector<int> cores_side_by_side(const std::vector<int>& cores, const std::string& root) {
  const auto number = [&](int core, const char* name) {
    return std::atoi(first_line_of(topology_file(root, core, name)).c_str());
  };
  std::vector<std::tuple<int, int, int>> placed;  // package, physical core, core
  for (const int core : cores) placed.emplace_back(number(core, "physical_package_id"), number(core, "core_id"), core);
  std::sort(placed.begin(), placed.end());
  std::vector<int> ordered;
  for (const auto& place : placed) ordered.push_back(std::get<2>(place));
  return ordered;
}

int compute_cores() { return std::max(1, std::min(physical_cores(affinity_cores()), quota_cores())); }

}  // namespace lockstep
