#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// Name of this host, as gethostname(2) gives it.
std::string host_name();

/// Identifies the kernel, the network namespace and the PID namespace that this process runs in: two ranks are on one
/// host, and may share memory and Unix sockets and watch each other's processes, exactly if these texts are equal. Host
/// names are not enough, since containers and clones share them. Containers of one machine may share its network and
/// not its process numbers (docker run --network=host, the containers of a pod): they count as several hosts.
std::string host_id();

/// The part of a `host_id` that two processes share if they have one network, and so one loopback interface.
std::string network_of_host(const std::string& host_id);

/// Hardware threads that this process may run on (its affinity mask, cut by the quotas of its control groups), at least
/// 1. How many of them to compute with is `compute_cores` (base/processor/core_count.h).
int available_cores();

/// The numbers of the cores in this process's affinity mask, ascending.
std::vector<int> affinity_cores();

}  // namespace lockstep
