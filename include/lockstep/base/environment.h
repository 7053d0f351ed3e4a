#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

/// The environment variable `name`; nothing where it is unset or empty.
std::optional<std::string> env_string(const std::string& name);

/// The environment variable `name` as a whole number.
/// @throws Error  that names the variable and its text, where it is set but is no number
std::optional<std::int64_t> env_int(const std::string& name);

/// The environment variable `name` as a switch: 1, true, yes, on or 0, false, no, off, in any case.
/// @throws Error  for any other text
std::optional<bool> env_bool(const std::string& name);

}  // namespace lockstep
