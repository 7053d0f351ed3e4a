#pragma once

#include <string>
#include <vector>

namespace lockstep {

// Each function reads files of /proc and /sys below `root`: "" is this machine; tests use a folder of their own. They
// use the C library only, because they may run before the constructors of the C++ library.

/// Whole cores that control groups allow this process: the smallest quota of its group and of all visible groups above
/// it, of cgroup v2 (cpu.max) and v1 (cpu.cfs_quota_us), rounded up. INT_MAX if there is no quota.
int quota_cores(const std::string& root = "");

/// How many physical cores the hardware threads `cores` belong to, by thread_siblings_list. A hardware thread without
/// that file counts as a core.
int physical_cores(const std::vector<int>& cores, const std::string& root = "");

/// `cores` ordered by package and physical core, so that neighbours share caches and memory.
std::vector<int> cores_side_by_side(const std::vector<int>& cores, const std::string& root = "");

/// Threads with which this process computes fastest: one for each physical core in its affinity mask, because two
/// hardware threads of a core share the units that multiply; at most its quota, at least 1. `available_cores`
/// (base/processor/topology.h) counts hardware threads.
int compute_cores();

}  // namespace lockstep
