#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/launch/plan.h"

namespace lockstep {

/// What the launcher of one host says of itself to those of the others.
struct HostEntry {
  std::string id;    ///< of this launcher, and of this coming to the job: two are never equal
  std::string name;  ///< of the host
  int local_ranks = 1;
  int min_nodes = 1;
  int max_nodes = 1;
  int max_restarts = 0;
  std::string run_id;
  std::string version;            ///< of Lockstep
  std::string program;            ///< as it was typed
  std::string program_digest;     ///< of its file
  std::vector<std::string> rest;  ///< the program's arguments

  /// Of this host.
  static HostEntry of(const LaunchPlan& plan);
};

void to_json(nlohmann::json& json, const HostEntry& entry);
/// @throws nlohmann::json::exception  if it is no entry
void from_json(const nlohmann::json& json, HostEntry& entry);

/// What another launcher wrote. @throws Error  if it is of another version
HostEntry parse_host_entry(const std::string& text);

/// Why the two cannot be hosts of one job: "host-b has --max-restarts 3, host-a has 0". Nothing where they can.
std::optional<std::string> difference(const HostEntry& job, const HostEntry& other);

}  // namespace lockstep
