// How `lockstep predict` continues texts: the flags, and the model's generation_config.json.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "lockstep/data/text/tokenizer.h"
#include "tools/lockstep/predict/prediction.h"

namespace lockstep {

/// What `generate` of Hugging Face's library takes from a model's folder.
struct GenerationSettings {
  std::int64_t max_new_tokens = 20;
  double temperature = 0;  ///< 0: the likeliest token
  std::int64_t top_k = 50;
  std::set<std::int64_t> ends;  ///< ids after which nothing follows
  std::string not_applied;      ///< a warning that names settings of the file which are not supported; else empty
};

/// A flag that was given counts, then the file in the model's folder, then the default. Without `eos_token_id` in
/// generation_config.json and config.json, the tokenizer's end-of-text token ends a text.
/// @throws Error  naming file and field, for a value of another type or out of range
GenerationSettings generation_settings(const PredictFlags& flags, const Tokenizer& tokenizer);

}  // namespace lockstep
