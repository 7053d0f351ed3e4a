#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace lockstep {

/// `text` as one JSON object. @param path  named in errors
/// @throws Error  if it is nested deeper than 64, or no JSON object
std::shared_ptr<const nlohmann::json> parse_json_object(const std::string& text, const std::string& path);

/// Reads the file `path` as one JSON object.
/// @throws Error  if it cannot be read, is longer than `max_bytes`, nested deeper than 64, or no JSON object
std::shared_ptr<const nlohmann::json> read_json_object(const std::string& path, std::uint64_t max_bytes);

}  // namespace lockstep
