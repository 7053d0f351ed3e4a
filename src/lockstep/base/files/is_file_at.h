#pragma once

#include <string>

namespace lockstep {

/// Whether the file behind the descriptor `fd` is the one that stands at `path` now: nobody has removed or replaced it
/// since it was opened, as the holder of a lock file does in the end.
bool is_file_at(int fd, const std::string& path);

}  // namespace lockstep
