#include "lockstep/comm/shm/memory/free_memory.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>

namespace lockstep::shm {
namespace {

constexpr std::size_t kUnlimited = std::numeric_limits<std::size_t>::max();

std::optional<std::size_t> read_number(const std::string& path) {
  std::ifstream file(path);
  std::size_t value = 0;
  if (!(file >> value)) return std::nullopt;  // also for "max"
  return value;
}

std::size_t host_available_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string name;
    std::size_t kib = 0;
    if (words >> name >> kib && name == "MemAvailable:") return kib * 1024;
  }
  return kUnlimited;
}

// The file cache that the kernel would free first, although it counts as used.
std::size_t reclaimable_bytes(const std::string& folder) {
  std::ifstream file(folder + "/memory.stat");
  std::string name;
  std::size_t value = 0;
  std::size_t sum = 0;
  while (file >> name >> value) {
    if (name == "inactive_file" || name == "total_inactive_file") sum = std::max(sum, value);
  }
  return sum;
}

// From the group's folder up to the root, because each level may have its own limit.
std::size_t group_available_bytes(const std::string& root, std::string group, const char* limit_file,
                                  const char* usage_file) {
  std::size_t left = kUnlimited;
  for (;;) {
    const std::string folder = root + group;
    const auto limit = read_number(folder + "/" + limit_file);
    const auto usage = read_number(folder + "/" + usage_file);
    if (limit && usage) {
      const std::size_t in_use = *usage - std::min(*usage, reclaimable_bytes(folder));
      left = std::min(left, *limit - std::min(*limit, in_use));
    }
    if (group.size() <= 1 || group.front() != '/') return left;
    group.erase(group.rfind('/'));
  }
}

}  // namespace

std::size_t available_memory_bytes() {
  std::size_t left = host_available_bytes();
  std::ifstream file("/proc/self/cgroup");  // "4:memory:/group" (version 1), "0::/group" (version 2)
  std::string line;
  while (std::getline(file, line)) {
    const auto first = line.find(':');
    const auto second = line.find(':', first == std::string::npos ? first : first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    std::string group = line.substr(second + 1);
    if (group.find("/..") != std::string::npos) group.clear();  // outside of this namespace
    if (controllers == ",,") {
      left = std::min(left, group_available_bytes("/sys/fs/cgroup", group, "memory.max", "memory.current"));
    } else if (controllers.find(",memory,") != std::string::npos) {
      left = std::min(left, group_available_bytes("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes",
                                                  "memory.usage_in_bytes"));
    }
  }
  return left;
}

}  // namespace lockstep::shm
