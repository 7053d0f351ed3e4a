#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/base/text/lower_case.h"
#include "lockstep/base/text/setting_value.h"
#include "tools/accelerate/accelerate_config.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;  // its objects are sorted by key

Json json_of(const AccelerateConfig& config) {
  Json out{{"compute_environment", config.compute_environment},
           {"debug", config.debug},
           {"distributed_type", config.distributed_type},
           {"downcast_bf16", config.downcast_bf16},
           {"enable_cpu_affinity", config.enable_cpu_affinity},
           {"machine_rank", config.machine_rank},
           {"main_training_function", config.main_training_function},
           {"mixed_precision", config.mixed_precision},
           {"num_machines", config.num_machines},
           {"num_processes", config.num_processes},
           {"rdzv_backend", config.rdzv_backend},
           {"same_network", config.same_network},
           {"tpu_env", Json::array()},
           {"tpu_use_cluster", false},
           {"tpu_use_sudo", false},
           {"use_cpu", config.use_cpu}};
  if (config.gpu_ids) out["gpu_ids"] = *config.gpu_ids;
  if (config.main_process_ip) out["main_process_ip"] = *config.main_process_ip;
  if (config.main_process_port) out["main_process_port"] = *config.main_process_port;
  for (const auto& [key, value] : config.fsdp_config) out["fsdp_config"]["fsdp_" + key] = setting_value(value);
  if (config.parallelism) {
    out["parallelism_config"] = {{"parallelism_config_dp_replicate_size", config.parallelism->replicas},
                                 {"parallelism_config_dp_shard_size", config.parallelism->shards}};
  }
  return out;
}

// Text that YAML could take for something else needs quotes: everything but words, paths, addresses and lists.
std::string yaml_text(const std::string& text) {
  static const std::vector<std::string> taken{"no", "yes", "on", "off", "true", "false", "null"};
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '/'; };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto is_plain = [&](char c) {
    return is_letter(c) || is_digit(c) || c == '-' || c == '_' || c == '.' || c == ',';
  };
  const bool is_word =
      !text.empty() && is_letter(text[0]) && std::find(taken.begin(), taken.end(), lower_case(text)) == taken.end();
  const bool is_address = !text.empty() && is_digit(text[0]) &&
                          (std::count(text.begin(), text.end(), '.') > 1 || text.find(',') != std::string::npos);
  if ((is_word || is_address) && std::all_of(text.begin(), text.end(), is_plain)) return text;
  const bool is_printable = std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
  YAML::Emitter quoted;
  quoted << (is_printable ? YAML::SingleQuoted : YAML::DoubleQuoted) << text;
  return quoted.c_str();
}

bool is_json(const std::string& path) { return std::filesystem::path(path).extension() == ".json"; }

}  // namespace

std::string accelerate_config_text(const AccelerateConfig& config, bool as_json) {
  const Json json = json_of(config);
  if (as_json) return json.dump(2) + "\n";
  const auto line = [](const std::string& key, const Json& value) {
    return key + ": " + (value.is_string() ? yaml_text(value.get<std::string>()) : value.dump()) + "\n";
  };
  std::string text;
  for (const auto& [key, value] : json.items()) {
    if (!value.is_object()) {
      text += line(key, value);
      continue;
    }
    text += key + ":\n";
    for (const auto& [inner, inner_value] : value.items()) text += "  " + line(inner, inner_value);
  }
  return text;
}

void write_accelerate_config(const AccelerateConfig& config, const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code failure;
  if (!folder.empty()) std::filesystem::create_directories(folder, failure);
  if (failure) {
    throw Error("cannot make the folder " + folder.string() + ": " + failure.message(), path,
                "name another file with --config-file");
  }
  write_file_atomically(path, accelerate_config_text(config, is_json(path)));
}

}  // namespace lockstep
