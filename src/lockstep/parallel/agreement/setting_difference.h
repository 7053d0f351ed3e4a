#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lockstep {

/// A setting that two sides do not have in common.
struct SettingDifference {
  std::string name;
  nlohmann::json mine, theirs;  ///< null: that side has none

  /// "batch_size is 3 for rank 1, and 2 for rank 0"; objects and lists are shown by the first entry that differs.
  /// @param me, them  the two sides: "rank 1", "the checkpoint"
  std::string text(const std::string& me, const std::string& them) const;
};

/// All settings of two objects that differ, by name; also those that only one of them has. Another value than an
/// object has no settings.
std::vector<SettingDifference> setting_differences(const nlohmann::json& mine, const nlohmann::json& theirs);

/// A JSON value for a message: null is "not given", and a long one is cut.
std::string shown_setting(const nlohmann::json& value);

}  // namespace lockstep
