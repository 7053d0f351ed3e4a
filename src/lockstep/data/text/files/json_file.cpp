#include "lockstep/data/text/files/json_file.h"

#include <limits>
#include <unordered_set>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/files/json_problem.h"
#include "lockstep/data/text/files/text_lines.h"

namespace lockstep::text {
namespace {

/// Deeper than any tokenizer file; recursion over the value is safe up to this depth.
constexpr int kDeepest = 64;

}  // namespace

nlohmann::json read_json_file(const std::string& path) { return parse_json(read_tokenizer_file(path), path); }

nlohmann::json parse_json(std::string_view content, const std::string& path) {
  using Event = nlohmann::json::parse_event_t;
  std::vector<std::unordered_set<std::string>> keys;
  const auto check = [&](int depth, Event event, nlohmann::json& parsed) {
    if (depth > kDeepest)
      throw Error("the JSON is nested deeper than " + std::to_string(kDeepest), path, "check the file");
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key && !keys.back().insert(parsed.get_ref<const std::string&>()).second) {
      throw Error("the key \"" + parsed.get<std::string>() + "\" occurs twice in one object", path,
                  "remove one of them, or download the file again");
    }
    return true;
  };
  try {
    return nlohmann::json::parse(content, check);
  } catch (const nlohmann::json::exception&) {
    const JsonProblem problem = find_json_problem(content);
    throw Error("not valid JSON: " + problem.text(), path + ":" + std::to_string(problem.line),
                "download the file again");
  }
}

TokenId json_id(const nlohmann::json& value, const std::string& where) {
  constexpr std::int64_t kLargest = std::numeric_limits<TokenId>::max();
  const bool huge = value.is_number_unsigned() && value.get<std::uint64_t>() > kLargest;
  if (!value.is_number_integer() || huge || value.get<std::int64_t>() < 0 || value.get<std::int64_t>() > kLargest)
    throw Error("a token's number is " + value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace), where,
                "numbers are whole, from 0 on");
  return value.get<TokenId>();
}

}  // namespace lockstep::text
