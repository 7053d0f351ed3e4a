#include "lockstep/base/processor/process_memory.h"

#include <fstream>
#include <string>

namespace lockstep {

ProcessMemory process_memory() {
  ProcessMemory memory;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    const auto take = [&](const std::string& key, std::int64_t& bytes) {  // "VmRSS:     1234 kB"
      if (line.rfind(key, 0) == 0) bytes = 1024 * std::stoll(line.substr(key.size()));
    };
    take("VmRSS:", memory.resident);
    take("VmHWM:", memory.peak_resident);
    take("RssFile:", memory.file);
    take("RssShmem:", memory.shared);
  }
  return memory;
}

}  // namespace lockstep
