#pragma once

#include <string>

namespace lockstep {

/// Makes the folder `path` and those above it; one that is there stays as it is.
/// @throws Error  with path and cause (a file stands there, no permission, no space)
void create_folders(const std::string& path);

}  // namespace lockstep
