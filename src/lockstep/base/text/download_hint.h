#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>

namespace lockstep {

/// What to do if there is no folder `name`: where it was looked for if it is a relative path, and what to type if it is
/// the name of a model on the Hugging Face Hub (NAME or OWNER/NAME). Empty for an absolute path.
inline std::string download_hint(const std::string& name) {
  if (name.empty() || name.front() == '/' || name.front() == '~') return "";
  const auto slashes = std::count(name.begin(), name.end(), '/');
  const bool is_path = name.front() == '.' || slashes > 1;
  std::error_code error;
  const std::string here = std::filesystem::current_path(error).string();
  std::string hint;
  if (slashes > 0 && !error) hint = "a path counts from the current folder, " + here + "; ";
  if (!is_path) hint += "`lockstep model get " + name + "` downloads it, if the Hugging Face Hub has it; or ";
  return hint;
}

}  // namespace lockstep
