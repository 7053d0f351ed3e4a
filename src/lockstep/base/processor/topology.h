#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// Name of this host, from gethostname(2).
std::string host_name();

/// Identifies the kernel, the network namespace and the PID namespace of this process. Two ranks are on one host, and
/// may share memory and Unix sockets and watch each other's processes, exactly if these texts are equal. Host names are
/// not enough, because containers and clones share them. Containers of one machine may share its network but not its
/// process numbers (docker run --network=host, the containers of a pod): they count as several hosts.
std::string host_id();

/// The part of a `host_id` that two processes share if they have one network, and therefore one loopback interface.
std::string network_of_host(const std::string& host_id);

/// Hardware threads that this process may run on (its affinity mask, limited by the quotas of its control groups), at
/// least 1. `compute_cores` (base/processor/core_count.h) says how many of them to compute with.
int available_cores();

/// The numbers of the cores in this process's affinity mask, ascending.
std::vector<int> affinity_cores();

}  // namespace lockstep
