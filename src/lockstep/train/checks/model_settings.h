#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lockstep/parallel/agreement/setting_difference.h"
#include "lockstep/train/trainable_model.h"

namespace lockstep {

/// What a model's own files say, which its weights do not: an entry for each setting of its JSON files, as
/// "config.json: hidden_act", and a digest of each other file. Settings that name a place or a program are left out.
nlohmann::json model_settings(const TrainableModel& model);

/// Settings that differ from those of the same training at an earlier time, and by which a training computes. Lengths
/// are not among them, because samples that are cut otherwise are other samples; nor is what another program has
/// written beside the settings that it read.
/// @param now, before  as `model_settings` returns them; null: an older version did not keep them, so nothing differs
std::vector<SettingDifference> model_changes(const nlohmann::json& now, const nlohmann::json& before);

/// "config.json: hidden_act is "relu" for rank 1, and "gelu" for rank 0"; of a digest only that the files differ.
std::string setting_text(const SettingDifference& difference, const std::string& me, const std::string& them);

/// Warnings for a training that continues one of a checkpoint: a line for each of the changes, or the first of many,
/// and where the checkpoint's settings are.
std::vector<std::string> warnings_of_model(const std::vector<SettingDifference>& changes,
                                           const std::string& checkpoint);

/// Whether a setting is one of the tokenizer, from which other samples follow.
bool is_of_tokenizer(const std::string& setting);

}  // namespace lockstep
