#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lockstep {

/// What a run is told that goes on from a checkpoint under other arguments: one line for each that differs and has a
/// say in the result, with both values and what happens now: whether the checkpoint's goes on, as that of the learning
/// rate does (its optimizer and schedule are taken up, as in PyTorch), or the new one holds from here on.
/// @param saved, now  as to_json(TrainingArguments) gives them; a name that only one of them has is passed over
std::vector<std::string> argument_changes(const nlohmann::json& saved, const nlohmann::json& now);

/// The same of what a program recorded of its data (TrainerOptions::data_arguments).
std::vector<std::string> data_argument_changes(const nlohmann::json& saved, const nlohmann::json& now);

}  // namespace lockstep
