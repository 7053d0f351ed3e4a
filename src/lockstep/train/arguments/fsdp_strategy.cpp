#include "lockstep/train/arguments/fsdp_strategy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstddef>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/base/text/affixes.h"
#include "lockstep/base/text/lower_case.h"
#include "lockstep/base/text/printable.h"

namespace lockstep {
namespace {

// Names of FSDP1's strategies, at the places by which PyTorch numbers them from 1 on.
constexpr std::array<const char*, 5> kStrategies{"full_shard", "shard_grad_op", "no_shard", "hybrid_shard",
                                                 "hybrid_shard_zero2"};

std::string strategy_in(const nlohmann::json& value, const std::string& key, const std::string& where) {
  const std::string text = value.is_string() ? lower_case(value.get<std::string>()) : value.dump();
  for (std::size_t i = 0; i < kStrategies.size(); ++i) {
    if (text == kStrategies[i] || text == std::to_string(i + 1)) return kStrategies[i];
  }
  throw UsageError(fmt::format("fsdp_config: {} {}: it is not a strategy of FSDP", key, printable(text)), where,
                   fmt::format("write one of {}{}", fmt::join(kStrategies, ", "),
                               plain_fsdp_name(key) == "reshard_after_forward" ? ", or true or false" : ""));
}

}  // namespace

FsdpStrategy fsdp_strategy_of(const nlohmann::json& config, const std::string& where) {
  FsdpStrategy strategy;
  if (!config.is_object()) return strategy;
  for (const auto& [key, value] : config.items()) {
    const std::string name = plain_fsdp_name(key);
    const bool is_reshard = name == "reshard_after_forward";
    if ((!is_reshard && name != "sharding_strategy") || value.is_null()) continue;
    const std::string text = value.is_string() ? lower_case(value.get<std::string>()) : "";
    if (is_reshard && (value.is_boolean() || text == "true" || text == "false")) {
      strategy.reshards = value == true || text == "true";
      continue;
    }
    const std::string word = strategy_in(value, key, where);
    if (strategy.word && *strategy.word != word) {
      throw UsageError(
          fmt::format("fsdp_config: {} {} and {} {}: they are two strategies", strategy.key, *strategy.word, key, word),
          where, "leave one of them out");
    }
    strategy.word = word;
    strategy.key = key;
  }
  return strategy;
}

std::string plain_fsdp_name(const std::string& key) {
  constexpr std::string_view kPrefix = "fsdp_";
  return starts_with(key, kPrefix) ? key.substr(kPrefix.size()) : key;
}

}  // namespace lockstep
