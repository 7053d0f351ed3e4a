#include "tools/accelerate/accelerate_fsdp.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/fsdp_variables.h"
#include "lockstep/base/text/affixes.h"
#include "lockstep/base/text/nearest_name.h"
#include "lockstep/base/text/printable.h"

namespace lockstep {
namespace {

const std::string kFsdpPrefix = "fsdp_";
const std::string kParallelismPrefix = "parallelism_config_";

bool is_fsdp_key(const std::string& name) {
  return std::any_of(kFsdpVariables.begin(), kFsdpVariables.end(),
                     [&](const auto& variable) { return name == variable.second; });
}

std::string line_of(const YAML::Node& node, const std::string& path) {
  return fmt::format("{}:{}", path, node.Mark().line + 1);
}

void require_section(const YAML::Node& section, const std::string& name, const std::string& path) {
  if (section.IsMap()) return;
  throw Error(name + " is not a section", line_of(section, path), "write " + name + ": and its keys below, indented");
}

std::string value_of(const YAML::Node& key, const YAML::Node& value, const std::string& path) {
  if (value.IsScalar()) return value.Scalar();
  throw Error(printable(key.Scalar()) + " is not a single value", line_of(key, path),
              "write one; names of several layers are separated by commas");
}

}  // namespace

std::map<std::string, std::string> read_fsdp_config(const YAML::Node& section, const std::string& path) {
  require_section(section, "fsdp_config", path);
  std::map<std::string, std::string> config;
  for (const auto& item : section) {
    const std::string key = item.first.IsScalar() ? item.first.Scalar() : "";
    const std::string name = starts_with(key, kFsdpPrefix) ? key.substr(kFsdpPrefix.size()) : key;
    if (!is_fsdp_key(name)) {
      std::vector<std::string> known;
      for (const auto& variable : kFsdpVariables) known.push_back(kFsdpPrefix + variable.second);
      throw Error(fmt::format("unknown key '{}' in fsdp_config{}", printable(key), did_you_mean(key, known)),
                  line_of(item.first, path), "correct it or remove it");
    }
    if (!item.second.IsNull()) config[name] = value_of(item.first, item.second, path);
  }
  return config;
}

ReplicasAndShards read_parallelism_config(const YAML::Node& section, const std::string& path) {
  require_section(section, "parallelism_config", path);
  ReplicasAndShards sizes;
  for (const auto& item : section) {
    if (item.second.IsNull()) continue;
    const std::string key = item.first.Scalar();
    const std::string name =
        starts_with(key, kParallelismPrefix) ? key.substr(kParallelismPrefix.size()) : printable(key);
    const std::string text = value_of(item.first, item.second, path);
    int size = 0;
    const bool is_size = YAML::convert<int>::decode(item.second, size) && size > 0;
    if (is_size && name == "dp_replicate_size") {
      sizes.replicas = size;
    } else if (is_size && name == "dp_shard_size") {
      sizes.shards = size;
    } else if (!is_size || size != 1) {
      throw Error(
          fmt::format("parallelism_config asks for {} {}, but Lockstep splits only the data", name, printable(text)),
          line_of(item.first, path), "remove it, or set its size to 1");
    }
  }
  return sizes;
}

std::map<std::string, std::string> fsdp_environment(const AccelerateConfig& config, int machines, int processes,
                                                    const std::string& path) {
  if (config.distributed_type != "FSDP") return {};
  std::map<std::string, std::string> environment{{"ACCELERATE_USE_FSDP", "true"}};
  for (const auto& [variable, key] : kFsdpVariables) {
    if (const auto given = config.fsdp_config.find(key); given != config.fsdp_config.end()) {
      environment[variable] = given->second;
    }
  }
  if (!config.parallelism) return environment;
  const auto [replicas, shards] = *config.parallelism;
  const std::string asked = fmt::format("parallelism_config asks for {} replicas of {} shards", replicas, shards);
  if (static_cast<std::int64_t>(replicas) * shards != processes) {
    throw Error(fmt::format("{}, but there are {} processes", asked, processes), path,
                "make the product of both sizes the number of processes");
  }
  if (replicas != 1 && replicas != machines) {
    throw Error(fmt::format("{} on {} machine(s): a replica is all ranks of a machine, or of the job", asked, machines),
                path, fmt::format("write {} or 1 for dp_replicate_size", machines));
  }
  if (replicas > 1) environment["FSDP_SHARDING_STRATEGY"] = "HYBRID_SHARD";
  return environment;
}

}  // namespace lockstep
