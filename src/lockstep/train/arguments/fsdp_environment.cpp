#include "lockstep/train/arguments/fsdp_environment.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <utility>

#include "lockstep/base/environment.h"
#include "lockstep/base/text/lower_case.h"

namespace lockstep {
namespace {

constexpr std::array<std::pair<const char*, const char*>, 16> kFsdpVariables{{
    {"FSDP_VERSION", "version"},
    {"FSDP_SHARDING_STRATEGY", "sharding_strategy"},
    {"FSDP_RESHARD_AFTER_FORWARD", "reshard_after_forward"},
    {"FSDP_OFFLOAD_PARAMS", "offload_params"},
    {"FSDP_MIN_NUM_PARAMS", "min_num_params"},
    {"FSDP_AUTO_WRAP_POLICY", "auto_wrap_policy"},
    {"FSDP_TRANSFORMER_CLS_TO_WRAP", "transformer_layer_cls_to_wrap"},
    {"FSDP_BACKWARD_PREFETCH", "backward_prefetch"},
    {"FSDP_STATE_DICT_TYPE", "state_dict_type"},
    {"FSDP_FORWARD_PREFETCH", "forward_prefetch"},
    {"FSDP_USE_ORIG_PARAMS", "use_orig_params"},
    {"FSDP_CPU_RAM_EFFICIENT_LOADING", "cpu_ram_efficient_loading"},
    {"FSDP_SYNC_MODULE_STATES", "sync_module_states"},
    {"FSDP_ACTIVATION_CHECKPOINTING", "activation_checkpointing"},
    {"FSDP_ACTIVATION_CHECKPOINTING_OFFLOAD", "activation_checkpointing_offload"},
    {"FSDP_IGNORED_MODULES", "ignored_modules"},
}};

nlohmann::json json_of_variable(const std::string& text) {
  const std::string lower = lower_case(text);
  if (lower == "true" || lower == "false") return lower == "true";
  const auto is_digit = [](unsigned char c) { return std::isdigit(c) != 0; };
  constexpr std::size_t kMostDigits = 18;
  const bool is_number = !text.empty() && text.size() <= kMostDigits && std::all_of(text.begin(), text.end(), is_digit);
  return is_number ? nlohmann::json(std::stoll(text)) : nlohmann::json(text);
}

}  // namespace

// With FSDP2, accelerate's launcher hands on FSDP1's default strategy as well, which FSDP2 does not read. A mesh with
// replicas is handed on as a hybrid strategy.
std::optional<nlohmann::json> fsdp_config_of_environment() {
  if (!env_bool("ACCELERATE_USE_FSDP").value_or(false)) return std::nullopt;
  nlohmann::json config = nlohmann::json::object();
  for (const auto& [variable, key] : kFsdpVariables) {
    if (const auto text = env_string(variable)) config[key] = json_of_variable(*text);
  }
  const bool is_fsdp2 = config.value("version", nlohmann::json(1)) == 2;
  const std::string strategy = lower_case(env_string("FSDP_SHARDING_STRATEGY").value_or(""));
  if (is_fsdp2 && strategy.rfind("hybrid", 0) != 0) config.erase("sharding_strategy");
  return config;
}

}  // namespace lockstep
