#include "lockstep/base/topology.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdio>
#include <fstream>
#include <memory>

namespace lockstep {
namespace {

// The quota of the cgroup in whole cores, or a large number. Reads cgroup v2's cpu.max at the root that the process
// sees, which is its own group inside a container.
int quota_cores() {
  // By the C library: this may run before the C++ library's constructors.
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen("/sys/fs/cgroup/cpu.max", "re"), &std::fclose);
  long long quota = 0;
  long long period = 0;
  if (!file || std::fscanf(file.get(), "%lld %lld", &quota, &period) != 2 || quota <= 0 || period <= 0) return INT_MAX;
  return static_cast<int>(std::min<long long>(INT_MAX, (quota + period - 1) / period));
}

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// What the kernel calls a namespace of this process, "net:[4026531840]".
std::string namespace_name(const char* link) {
  std::array<char, 64> name{};
  const ssize_t length = ::readlink(link, name.data(), name.size() - 1);
  return std::string(name.data(), static_cast<std::size_t>(std::max<ssize_t>(0, length)));
}

}  // namespace

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

std::string host_id() {
  return first_line("/proc/sys/kernel/random/boot_id") + "/" + namespace_name("/proc/self/ns/net") + "/" +
         namespace_name("/proc/self/ns/pid");
}

std::string network_of_host(const std::string& host_id) {
  const std::size_t kernel_end = host_id.find('/');
  return kernel_end == std::string::npos ? host_id : host_id.substr(0, host_id.find('/', kernel_end + 1));
}

std::vector<int> affinity_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return {0};
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

int available_cores() { return std::max(1, std::min(static_cast<int>(affinity_cores().size()), quota_cores())); }

}  // namespace lockstep
