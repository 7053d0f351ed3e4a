#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "lockstep/detail/data/text/token_id.h"

namespace lockstep::text {

/// Reads a JSON file. Stricter than JSON requires: a repeated key in one object is refused, because it would hide one
/// of its values.
/// @throws Error  with file and line
nlohmann::json read_json_file(const std::string& path);
/// Parses the content of a JSON file in the same way. @param path  named in errors
nlohmann::json parse_json(std::string_view content, const std::string& path);

/// `value` as a token's number.
/// @throws Error  naming `where`, unless it is a whole number from 0 to 2^31 - 1
TokenId json_id(const nlohmann::json& value, const std::string& where);

}  // namespace lockstep::text
