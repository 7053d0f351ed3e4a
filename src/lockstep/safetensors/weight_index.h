#pragma once

#include <map>
#include <string>

namespace lockstep {

/// The file of each tensor, as `model.safetensors.index.json` names it: a plain name, so it lies beside the index.
using WeightIndex = std::map<std::string, std::string>;

/// @param path  named in errors
/// @throws Error  if the text is not a JSON object with a "weight_map", or gives a tensor anything but a plain name
WeightIndex parse_weight_index(const std::string& text, const std::string& path);

}  // namespace lockstep
