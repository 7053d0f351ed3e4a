#pragma once

#include <yaml-cpp/yaml.h>

#include <map>
#include <string>

#include "tools/accelerate/accelerate_config.h"

namespace lockstep {

/// Reads the section `fsdp_config`, of FSDP1 or FSDP2. What a program cannot do it refuses itself, with the reason.
/// @throws Error  with file and line, if a key is not one of accelerate's or has no single value
std::map<std::string, std::string> read_fsdp_config(const YAML::Node& section, const std::string& path);

/// Reads the section `parallelism_config`, as far as it concerns replicas and shards of FSDP2.
/// @throws Error  with file and line, if it asks for another kind of parallelism
ReplicasAndShards read_parallelism_config(const YAML::Node& section, const std::string& path);

/// The variables by which accelerate tells a program what `fsdp_config` asks for, and with them Trainer and
/// Accelerator. Empty if the file asks for no FSDP.
/// @throws Error  if replicas are asked for in other groups than the machines
std::map<std::string, std::string> fsdp_environment(const AccelerateConfig& config, int machines, int processes,
                                                    const std::string& path);

}  // namespace lockstep
