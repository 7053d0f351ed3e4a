#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// `text` as a whole number.
/// @param flag  named in the error
/// @throws UsageError  if it is not a whole number, or is outside [least, most]
std::int64_t parse_whole(const std::string& flag, const std::string& text, std::int64_t least, std::int64_t most);

/// `text` as a number of seconds, more than zero (zero itself only if `zero` is set) and at most a year.
/// @throws UsageError  otherwise
double parse_seconds(const std::string& flag, const std::string& text, bool zero = false);

/// The parts of `text` between `separator`s; one empty part for an empty text.
std::vector<std::string> split(const std::string& text, char separator);

}  // namespace lockstep
