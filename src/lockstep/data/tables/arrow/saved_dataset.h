#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// The Arrow files of a folder that Hugging Face's datasets wrote with save_to_disk, in the order of their rows.
/// @throws Error  if the folder has several splits, with their names; or if it is not such a folder, or is damaged
std::vector<std::string> files_of_saved_dataset(const std::string& folder);

}  // namespace lockstep
