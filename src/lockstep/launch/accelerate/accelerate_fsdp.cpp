#include "lockstep/launch/accelerate/accelerate_fsdp.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text/lower_case.h"
#include "lockstep/base/text/nearest_name.h"
#include "lockstep/base/text/printable.h"

namespace lockstep {
namespace {

const std::string kFsdpPrefix = "fsdp_";
const std::string kParallelismPrefix = "parallelism_config_";

// The variable of a key is FSDP_ and its name without the prefix, but for one.
const std::vector<std::string>& fsdp_keys() {
  static const std::vector<std::string> keys{"version",
                                             "sharding_strategy",
                                             "reshard_after_forward",
                                             "offload_params",
                                             "min_num_params",
                                             "auto_wrap_policy",
                                             "transformer_layer_cls_to_wrap",
                                             "backward_prefetch",
                                             "state_dict_type",
                                             "forward_prefetch",
                                             "use_orig_params",
                                             "cpu_ram_efficient_loading",
                                             "sync_module_states",
                                             "activation_checkpointing",
                                             "activation_checkpointing_offload",
                                             "ignored_modules"};
  return keys;
}

std::string variable_of(const std::string& key) {
  if (key == "transformer_layer_cls_to_wrap") return "FSDP_TRANSFORMER_CLS_TO_WRAP";
  std::string name = "FSDP_" + key;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::toupper(c); });
  return name;
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
    const std::string name = key.rfind(kFsdpPrefix, 0) == 0 ? key.substr(kFsdpPrefix.size()) : key;
    if (std::find(fsdp_keys().begin(), fsdp_keys().end(), name) == fsdp_keys().end()) {
      std::vector<std::string> known;
      for (const std::string& each : fsdp_keys()) known.push_back(kFsdpPrefix + each);
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
        key.rfind(kParallelismPrefix, 0) == 0 ? key.substr(kParallelismPrefix.size()) : printable(key);
    const std::string text = value_of(item.first, item.second, path);
    int size = 0;
    const bool is_size = YAML::convert<int>::decode(item.second, size) && size > 0;
    if (is_size && name == "dp_replicate_size") {
      sizes.replicas = size;
    } else if (is_size && name == "dp_shard_size") {
      sizes.shards = size;
    } else if (!is_size || size != 1) {
      throw Error(
          fmt::format("parallelism_config asks for {} {}, and Lockstep splits data alone", name, printable(text)),
          line_of(item.first, path), "remove it, or write 1 for its size");
    }
  }
  return sizes;
}

std::map<std::string, std::string> fsdp_environment(const AccelerateConfig& config, int machines, int processes,
                                                    const std::string& path) {
  if (config.distributed_type != "FSDP") return {};
  std::map<std::string, std::string> environment{{"ACCELERATE_USE_FSDP", "true"}};
  for (const auto& [key, value] : config.fsdp_config) environment[variable_of(key)] = value;
  if (!config.parallelism) return environment;
  const auto [replicas, shards] = *config.parallelism;
  const std::string asked = fmt::format("parallelism_config asks for {} replicas of {} shards", replicas, shards);
  if (static_cast<std::int64_t>(replicas) * shards != processes) {
    throw Error(fmt::format("{}, and there are {} processes", asked, processes), path,
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
