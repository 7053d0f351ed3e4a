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
  int pid = 0;       ///< of the launcher
  int local_ranks = 1;
  int min_nodes = 1;
  int max_nodes = 1;
  int max_restarts = 0;
  bool ranks_given = false;  ///< by --node-rank, not as hosts come
  std::string run_id;
  std::string version;            ///< of Lockstep
  std::string program;            ///< as it was typed
  std::string program_digest;     ///< of its file
  std::vector<std::string> rest;  ///< the program's arguments

  /// Of this host.
  static HostEntry of(const LaunchPlan& plan);
  /// "host-a (pid 4711)"
  std::string label() const;
};

void to_json(nlohmann::json& json, const HostEntry& entry);
/// @throws nlohmann::json::exception  if it is no entry
void from_json(const nlohmann::json& json, HostEntry& entry);

/// What another launcher wrote. Of one of another version, which may write other fields, there is its name and version.
/// @throws Error  if it is no entry
HostEntry parse_host_entry(const std::string& text);
/// The same of a part of a message. @throws nlohmann::json::exception  if it is no entry
HostEntry host_entry_of(const nlohmann::json& json);

/// Why `other` is a host of another job, which came to the wrong place. Nothing where it is not.
std::optional<std::string> other_job(const HostEntry& job, const HostEntry& other);

/// Why the two cannot be hosts of one job: "host-b has --max-restarts 3, host-a has 0". Nothing where they can.
std::optional<std::string> difference(const HostEntry& job, const HostEntry& other);

}  // namespace lockstep
