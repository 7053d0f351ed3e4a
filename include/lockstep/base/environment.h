#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

/// The environment variable `name`; nothing if it is unset or empty.
std::optional<std::string> env_string(const std::string& name);

/// The environment variable `name` as a whole number; nothing if it is unset or empty.
/// @throws Error  that names the variable and its text, if the text is not a whole number
std::optional<std::int64_t> env_int(const std::string& name);

/// The environment variable `name` as a switch: 1, true, yes, on or 0, false, no, off, in upper or lower case; nothing
/// if it is unset or empty.
/// @throws Error  for any other text
std::optional<bool> env_bool(const std::string& name);

}  // namespace lockstep
