#pragma once

#include <string>

namespace lockstep {

/// The task for which a folder's model was trained, from its config.json: "text-classification", "language-modeling",
/// "image-classification" or "tabular-classification"; "sentence-embedding" if it has a modules.json, too.
/// @throws UsageError  if there is no such folder, or it has no config.json. @throws Error  if that cannot be read
std::string task_of_folder(const std::string& folder);

}  // namespace lockstep
