#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/launch/plan.h"

namespace lockstep {

/// A launcher's description of itself and its host, for the launchers of the other hosts.
struct HostEntry {
  std::string id;       ///< unique for each launcher and for each time it joins
  std::string name;     ///< name of the host
  int pid = 0;          ///< pid of the launcher
  std::string standby;  ///< where this launcher serves the store if the one that does is lost; may be empty
  int local_ranks = 1;
  int min_nodes = 1;
  int max_nodes = 1;
  int max_restarts = 0;
  bool ranks_given = false;  ///< by --node-rank, not by the order of arrival
  std::string run_id;
  std::string version;            ///< version of Lockstep
  std::string program;            ///< as typed
  std::string program_digest;     ///< digest of its file
  std::vector<std::string> rest;  ///< the program's arguments

  /// The entry of this host.
  static HostEntry of(const LaunchPlan& plan);
  /// "host-a (pid 4711)"
  std::string label() const;
};

void to_json(nlohmann::json& json, const HostEntry& entry);
/// @throws nlohmann::json::exception  if it is not an entry
void from_json(const nlohmann::json& json, HostEntry& entry);

/// Reads another launcher's entry. If that launcher has another version, which may write other fields, only its name
/// and version are read.
/// @throws Error  if it is not an entry
HostEntry parse_host_entry(const std::string& text);
/// `parse_host_entry` for a part of a message. @throws nlohmann::json::exception  if it is not an entry
HostEntry host_entry_of(const nlohmann::json& json);

/// Why `other` belongs to another job and reached the wrong store. Nothing if it belongs to this job.
std::optional<std::string> other_job(const HostEntry& job, const HostEntry& other);

/// Why the two cannot be hosts of one job: "host-b has --max-restarts 3, host-a has 0". Nothing if they can.
std::optional<std::string> difference(const HostEntry& job, const HostEntry& other);

}  // namespace lockstep
