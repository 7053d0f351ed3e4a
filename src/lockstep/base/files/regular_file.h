#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

/// What a file of settings, or of another kind that people write, may hold.
constexpr std::uint64_t kMostSettingsBytes = std::uint64_t{64} << 20;

/// The whole content of the regular file `path`, or of what a link of that name leads to. A pipe, which would be waited
/// for, a device, which may never end, and a file of more than `most_bytes` are refused, also one that grows meanwhile.
/// @throws Error  with path and cause
std::string read_regular_file(const std::string& path, std::uint64_t most_bytes);

}  // namespace lockstep
