#include "lockstep/base/processor/processor_name.h"

#include <fstream>

namespace lockstep {

std::string processor_name() {
  const std::string key = "model name";
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.rfind(key, 0) != 0) continue;
    const std::size_t start = line.find_first_not_of(" \t", line.find(':') + 1);
    if (start != std::string::npos) return line.substr(start);
  }
  return "unknown";
}

}  // namespace lockstep
