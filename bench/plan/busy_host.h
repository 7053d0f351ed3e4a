#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <string>

namespace lockstep {

/// A warning if the ranks that are measured are to share cores with each other; empty if they need not.
inline std::string crowded_host_warning(int ranks, int threads, int cores) {
  if (ranks * threads <= cores) return "";
  return fmt::format(
      "{} rank(s) with {} thread(s) share the {} core(s) of this host: what is measured, and all that follows from it, "
      "is not what hosts with a core for each would do",
      ranks, threads, cores);
}

/// A warning if they are to share cores with other programs; empty if there are cores left, or it is not known.
/// @param load  average number of processes that wanted a core in the last minute; below 0: not known
/// @param wanted  cores that the ranks want
/// @param cores  of the machine, also those that this process may not use
inline std::string busy_host_warning(double load, int wanted, int cores) {
  constexpr double kNoise = 0.5;  // what every system does beside
  if (load < kNoise || load + wanted <= cores + kNoise) return "";
  return fmt::format(
      "other programs wanted {:.1f} of this host's {} core(s) in the last minute, and what is measured wants {}: the "
      "step, and all that follows from it, is slower than on a host of its own. Measure again while the host is idle",
      load, cores, wanted);
}

/// The first of these that applies to this host.
inline std::string cores_warning(int ranks, int threads, int available, double load) {
  const std::string crowded = crowded_host_warning(ranks, threads, available);
  if (!crowded.empty()) return crowded;
  return busy_host_warning(load, ranks * threads, static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)));
}

}  // namespace lockstep
