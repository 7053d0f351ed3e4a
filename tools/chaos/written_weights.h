// The weights that a training wrote, as digests.
#pragma once

#include <map>
#include <string>

namespace lockstep {

/// SHA-256 of the model's and the optimizer's safetensors files in a folder and those below it, by the path below it. A
/// checkpoint's files of single ranks are left out: how many there are depends on how many ranks there were.
/// @throws Error  if a file cannot be read, or the folder has no model.safetensors
std::map<std::string, std::string> written_weights(const std::string& folder);

}  // namespace lockstep
