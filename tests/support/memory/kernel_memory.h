// What the kernel counts of this process's memory.
#pragma once

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

namespace lockstep {

/// The figure behind `key` in a file of /proc/self whose lines are "Key:  123 kB", in MiB. Negative if the kernel does
/// not say.
inline double mib_by_kernel(const std::string& file, const std::string& key) {
  std::ifstream figures("/proc/self/" + file);
  for (std::string line; std::getline(figures, line);) {
    std::int64_t kib = 0;
    const bool is_it = line.compare(0, key.size() + 1, key + ":") == 0;
    if (is_it && std::sscanf(line.c_str() + key.size() + 1, "%" SCNd64 " kB", &kib) == 1) {
      return static_cast<double>(kib) / 1024;
    }
  }
  return -1;
}

}  // namespace lockstep
