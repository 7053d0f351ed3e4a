#include "lockstep/train/arguments/fsdp_environment.h"

#include <string>

#include "lockstep/base/environment.h"
#include "lockstep/base/fsdp_variables.h"
#include "lockstep/base/text/lower_case.h"
#include "lockstep/base/text/setting_value.h"

namespace lockstep {

// With FSDP2, accelerate's launcher hands on FSDP1's default strategy as well, which FSDP2 does not read. A mesh with
// replicas is handed on as a hybrid strategy.
std::optional<nlohmann::json> fsdp_config_of_environment() {
  if (!env_bool("ACCELERATE_USE_FSDP").value_or(false)) return std::nullopt;
  nlohmann::json config = nlohmann::json::object();
  for (const auto& [variable, key] : kFsdpVariables) {
    if (const auto text = env_string(variable)) config[key] = setting_value(*text);
  }
  const bool is_fsdp2 = config.value("version", nlohmann::json(1)) == 2;
  const std::string strategy = lower_case(env_string("FSDP_SHARDING_STRATEGY").value_or(""));
  if (is_fsdp2 && strategy.rfind("hybrid", 0) != 0) config.erase("sharding_strategy");
  return config;
}

}  // namespace lockstep
