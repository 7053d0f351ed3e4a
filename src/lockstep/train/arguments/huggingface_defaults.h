#pragma once

#include <nlohmann/json_fwd.hpp>

namespace lockstep {

/// Takes out of `document` the arguments of Hugging Face's Trainer that this Trainer does not have, if they have the
/// values that `TrainingArguments.to_json_string()` writes for who never set them: they ask for nothing. Others stay.
/// @param document  an object with a value for each name
void drop_huggingface_defaults(nlohmann::json& document);

}  // namespace lockstep
