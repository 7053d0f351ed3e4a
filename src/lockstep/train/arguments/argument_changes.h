#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lockstep {

/// Warnings for a resumed run whose arguments differ from the checkpoint's: one line per argument that affects the
/// result, with both values and which one applies from now on. The checkpoint's learning rate stays in effect, for
/// example, because its optimizer and schedule are restored, as in PyTorch.
/// @param saved, now  as to_json(TrainingArguments) returns them; a name that only one of them has is ignored
std::vector<std::string> argument_changes(const nlohmann::json& saved, const nlohmann::json& now);

/// Whether a checkpoint has a setting of its data in the form of an older version: the flag as it was given, which does
/// not say what was found without one. @param saved  all settings
bool is_of_older_form(const nlohmann::json& saved, const std::string& name);

/// Such warnings for a program's description of its data (TrainerOptions::data_arguments).
std::vector<std::string> data_argument_changes(const nlohmann::json& saved, const nlohmann::json& now);

}  // namespace lockstep
