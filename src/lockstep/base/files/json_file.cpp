#include "lockstep/base/files/json_file.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/files/json_problem.h"
#include "lockstep/base/files/regular_file.h"

namespace lockstep {

void refuse_deep_json(const std::string& text, const std::string& path) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (in_string) {
      if (c == '\\') ++at;
      if (c == '"') in_string = false;
      continue;
    }
    if (c == '"') in_string = true;
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (depth > kMaxJsonDepth) {
      throw Error(
          fmt::format("{}: its values are nested too deeply, in more than {} objects and arrays", path, kMaxJsonDepth),
          path, "check that it is the right file");
    }
  }
}

std::shared_ptr<const nlohmann::json> parse_json_object(const std::string& text, const std::string& path) {
  refuse_deep_json(text, path);  // the library's own callback takes time quadratic in the length of an array
  try {
    auto json = std::make_shared<nlohmann::json>(nlohmann::json::parse(text));
    if (json->is_object()) return json;
  } catch (const nlohmann::json::exception&) {
    throw Error(fmt::format("{} is not JSON: {}", path, find_json_problem(text).text()), path, "write the file again");
  }
  throw Error(path + " is not a JSON object", path, "check that it is the right file");
}

std::shared_ptr<const nlohmann::json> read_json_object(const std::string& path, std::uint64_t max_bytes) {
  return parse_json_object(read_regular_file(path, max_bytes), path);
}

}  // namespace lockstep
