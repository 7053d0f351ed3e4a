#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

/// Size limit of files that people write, such as settings.
constexpr std::uint64_t kMostSettingsBytes = std::uint64_t{64} << 20;

/// The whole content of the regular file `path`, or of the file that a link of that name leads to. Refuses a pipe,
/// which may block, a device, which may never end, and a file of more than `most_bytes`, even if it grows during the
/// read.
/// @throws Error  with path and cause
std::string read_regular_file(const std::string& path, std::uint64_t most_bytes);

/// The same, or all that is written to the pipe `path`, as `/dev/stdin` and the shell's `<(COMMAND)` may be: it waits
/// until the last writer has closed it. A pipe that is empty and has no writer is refused at once. Read it once: what
/// was read is gone.
/// @throws Error  with path and cause
std::string read_file_or_pipe(const std::string& path, std::uint64_t most_bytes);

}  // namespace lockstep
