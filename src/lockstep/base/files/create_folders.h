#pragma once

#include <string>

namespace lockstep {

/// Creates the folder `path` and those above it; existing folders stay as they are.
/// @throws Error  with path and cause (the name belongs to a file, no permission, no space)
void create_folders(const std::string& path);

}  // namespace lockstep
