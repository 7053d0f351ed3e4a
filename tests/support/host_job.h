#pragma once

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/memory/memory_limit.h"
#include "tools/hosts/network_hosts.h"

namespace lockstep {

/// How the ranks of a job on several hosts of this machine are started.
struct HostJobOptions {
  int ranks_per_host = 1;
  /// Each host has an equal part of this machine's cores for itself, as a host would; if there are more hosts than
  /// cores, hosts share one. Each rank computes with one thread.
  bool own_cores = true;
  /// Each host runs a job of its own, all at the same time; the result is the first host's.
  bool apart = false;
  std::chrono::minutes deadline{5};
  std::vector<const MemoryLimit*> limits;                       ///< one for each host; empty: none
  std::map<std::string, std::optional<std::string>> variables;  ///< for the ranks; without a value: unset
};

/// Runs `program` on all `hosts`, started on each by `lockstep run` (which must lie in `bin`), so with the heap and the
/// threads that it gives to ranks. @return  the JSON object that rank 0 printed as its last line
/// @throws std::runtime_error  with what the ranks printed, if they fail
nlohmann::ordered_json run_on_hosts(const NetworkHosts& hosts, const std::string& bin,
                                    const std::vector<std::string>& program, const HostJobOptions& options = {});

}  // namespace lockstep
