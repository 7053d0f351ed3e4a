#pragma once

#include <string>
#include <vector>

namespace lockstep {

// Each function reads files of /proc and /sys below `root`: "" is this machine, and a test names a folder of its own.
// They read by the C library alone, since they may run before the constructors of the C++ library.

/// Whole cores that control groups leave to this process: the smallest quota of its group and of all groups above that
/// it can see, of cgroup v2 (cpu.max) and v1 (cpu.cfs_quota_us), rounded up. INT_MAX if there is no quota.
int quota_cores(const std::string& root = "");

/// How many physical cores the hardware threads `cores` belong to, by thread_siblings_list. One for which the machine
/// does not say it counts as a core of its own.
int physical_cores(const std::vector<int>& cores, const std::string& root = "");

/// `cores` ordered by package and physical core, so that neighbours share caches and memory.
std::vector<int> cores_side_by_side(const std::vector<int>& cores, const std::string& root = "");

/// Threads with which this process computes fastest: one for each physical core in its affinity mask, since two
/// hardware threads of a core share the units that multiply; not more than its quota; at least 1.
/// `available_cores` (base/processor/topology.h) counts hardware threads.
int compute_cores();

}  // namespace lockstep
