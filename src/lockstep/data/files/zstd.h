#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep {

/// Whether `bytes` begin as a file that zstd compressed. File names do not matter.
bool is_zstd(std::string_view bytes);

/// The whole content of a zstd file: its frames one after the other (RFC 8878).
/// @param path  named in errors
/// @throws Error  if the file is truncated or damaged, something else follows its frames, or the content is larger than
/// `most_bytes`
std::string unzstd(std::string_view compressed, const std::string& path, std::size_t most_bytes);

}  // namespace lockstep
