#include "lockstep/base/json_file.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "lockstep/base/atomic_file.h"
#include "lockstep/base/error.h"

namespace lockstep {
namespace {

constexpr int kMaxJsonDepth = 64;

}  // namespace

std::shared_ptr<const nlohmann::json> parse_json_object(const std::string& text, const std::string& path) {
  const auto bounded = [&](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    if (depth > kMaxJsonDepth) throw Error("its values are nested too deeply", path, "check that it is the right file");
    return true;
  };
  try {
    auto json = std::make_shared<nlohmann::json>(nlohmann::json::parse(text, bounded));
    if (json->is_object()) return json;
  } catch (const nlohmann::json::exception& error) {
    throw Error(fmt::format("{} is not JSON: {}", path, error.what()), path, "write the file again");
  }
  throw Error(path + " is not a JSON object", path, "check that it is the right file");
}

std::shared_ptr<const nlohmann::json> read_json_object(const std::string& path, std::uint64_t max_bytes) {
  std::error_code problem;
  const std::filesystem::file_status status = std::filesystem::status(path, problem);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    throw Error(path + " is no regular file", path, "name a file");  // a pipe would be waited for
  }
  const auto size = std::filesystem::file_size(path, problem);
  if (!problem && size > max_bytes) {
    throw Error(fmt::format("{} has {} bytes; the most is {}", path, size, max_bytes), path,
                "check that it is the right file");
  }
  return parse_json_object(read_file(path), path);
}

}  // namespace lockstep
