#pragma once

#include <string>
#include <string_view>

namespace lockstep {

/// Replaces the file `path` by `content` so that a reader, or a crash at any moment, sees the old file or the new one
/// and never a part: written beside as a temporary file, synced to disk, renamed, folder synced.
/// @param mode  permission bits of the new file
/// @throws Error  with path and cause (no space, no permission); the old file then stands unchanged
void write_file_atomically(const std::string& path, std::string_view content, unsigned mode = 0644);

/// The whole content of `path`.
/// @throws Error  with path and cause
std::string read_file(const std::string& path);

}  // namespace lockstep
