#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace lockstep {

/// What `fsdp_config` says about the way to shard, beside `fsdp`.
struct FsdpStrategy {
  std::optional<bool> reshards;     ///< reshard_after_forward of FSDP2
  std::optional<std::string> word;  ///< sharding_strategy of FSDP1, which accelerate calls reshard_after_forward, too
  std::string key;                  ///< that has the word
};

/// @throws UsageError  if `config` names something that is not a strategy, or two of them
FsdpStrategy fsdp_strategy_of(const nlohmann::json& config, const std::string& where);

/// The name of an option of `fsdp_config` without its prefix "fsdp_", which may be left out.
std::string plain_fsdp_name(const std::string& key);

}  // namespace lockstep
