#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace lockstep {

/// Most levels of objects and arrays in a JSON file that is read: recursion over its value is then safe.
constexpr int kMaxJsonDepth = 64;

/// Refuses text that opens more than kMaxJsonDepth brackets before it closes them, whether it is JSON or not.
/// @param path  named in errors
void refuse_deep_json(const std::string& text, const std::string& path);

/// `text` as one JSON object. @param path  named in errors
/// @throws Error  if it is nested deeper than kMaxJsonDepth, or is not a JSON object
std::shared_ptr<const nlohmann::json> parse_json_object(const std::string& text, const std::string& path);

/// Reads the file `path` as one JSON object.
/// @throws Error  if it cannot be read, is longer than `max_bytes`, is nested deeper than kMaxJsonDepth, or is not a
/// JSON object
std::shared_ptr<const nlohmann::json> read_json_object(const std::string& path, std::uint64_t max_bytes);

}  // namespace lockstep
