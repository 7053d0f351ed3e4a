#include "lockstep/base/processor/topology.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <fstream>

#include "lockstep/base/processor/core_count.h"
#include "lockstep/base/processor/cpu_mask.h"

namespace lockstep {
namespace {

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The kernel's name for a namespace of this process, "net:[4026531840]".
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
  const auto mask = CpuMask::of(0);
  return mask ? mask->cores() : std::vector<int>{0};
}

int available_cores() { return std::max(1, std::min(static_cast<int>(affinity_cores().size()), quota_cores())); }

}  // namespace lockstep
