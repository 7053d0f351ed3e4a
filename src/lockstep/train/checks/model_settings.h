#pragma once

#include <nlohmann/json.hpp>

#include "lockstep/train/trainable_model.h"

namespace lockstep {

/// What a model's own files say, which its weights do not: an entry for each setting of its JSON files, as
/// "config.json: hidden_act", and a digest of each other file. Settings that name a place or a program are left out.
nlohmann::json model_settings(const TrainableModel& model);

}  // namespace lockstep
