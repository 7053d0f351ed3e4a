#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// Name of this host, as gethostname(2) gives it.
std::string host_name();

/// Identifies the kernel and network namespace that this process runs on: two ranks are on one host, and may share
/// memory and Unix sockets, exactly if these texts are equal. Host names are not enough: containers and clones share
/// them.
std::string host_id();

/// Cores that this process may run on (its affinity mask, cut by a cgroup's CPU quota), at least 1.
int available_cores();

/// The numbers of the cores in this process's affinity mask, ascending.
std::vector<int> affinity_cores();

}  // namespace lockstep
