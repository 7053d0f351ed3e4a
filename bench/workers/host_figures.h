// What a rank's host has sent, and what the rank holds, as the kernel counts them.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

namespace lockstep {

/// Bytes with headers that have left this host, or the network namespace that stands for it, by any interface but lo.
inline std::int64_t bytes_sent_by_host() {
  std::ifstream devices("/proc/self/net/dev");
  std::int64_t sum = 0;
  for (std::string line; std::getline(devices, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || line.substr(0, colon).find("lo") != std::string::npos) continue;
    std::istringstream fields(line.substr(colon + 1));
    std::int64_t value = 0;
    constexpr int kSentBytes = 9;  // the receiving side has eight fields
    for (int field = 0; field < kSentBytes; ++field) fields >> value;
    if (fields) sum += value;
  }
  return sum;
}

/// MiB of memory that this process holds: its own, and its share of what processes share. Without files. Slow: the
/// kernel walks all pages.
inline double held_mib() {
  std::ifstream rollup("/proc/self/smaps_rollup");
  double sum = 0;
  for (std::string line; std::getline(rollup, line);) {
    for (const char* key : {"Pss_Anon:", "Pss_Shmem:"}) {
      if (line.rfind(key, 0) == 0) sum += std::stod(line.substr(std::string(key).size())) / 1024;
    }
  }
  return sum;
}

/// The most that this process holds while it is watched, by a thread that looks every 20 ms. It disturbs what is timed.
class HeldMemory {
 public:
  ~HeldMemory() { stop(); }

  void watch() {
    thread_ = std::thread([this] {
      while (!stop_) {
        most_ = std::max(most_, held_mib());
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
    });
  }
  /// @return  MiB beyond what was held when the object was made
  double stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    return most_ - before_;
  }

 private:
  const double before_ = held_mib();
  double most_ = before_;  // the thread's, until it has ended
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace lockstep
