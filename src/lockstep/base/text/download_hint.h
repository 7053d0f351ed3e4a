#pragma once

#include <algorithm>
#include <string>

namespace lockstep {

/// What to type if `name`, of which there is no folder, is that of a model on the Hugging Face Hub (NAME or
/// OWNER/NAME); empty for a path.
inline std::string download_hint(const std::string& name) {
  const bool is_path = name.empty() || name.front() == '/' || name.front() == '.' || name.front() == '~' ||
                       std::count(name.begin(), name.end(), '/') > 1;
  return is_path ? "" : "`lockstep model get " + name + "` downloads it, if the Hugging Face Hub has it; or ";
}

}  // namespace lockstep
