#include "lockstep/base/files/json_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lockstep/base/files/json_events.h"
#include "lockstep/base/text/printable.h"

namespace lockstep {
namespace {

// Follows a text up to its problem. The library's exceptions alone name no key, and of a number no place either.
class ProblemSearch : public JsonEvents {
 public:
  explicit ProblemSearch(std::string_view text) : text_(text) {}
  const JsonProblem& found() const { return found_; }

  bool key(std::string& name) override {
    found_.key = printable(name);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception& error) override {
    // The problem is the last character that was read; it may be a line end itself.
    const std::size_t at = position > 0 ? position - 1 : 0;
    const std::string_view before = text_.substr(0, at);
    found_.line = 1 + std::count(before.begin(), before.end(), '\n');
    const std::size_t line_end = before.rfind('\n');
    found_.column = static_cast<std::int64_t>(line_end == std::string_view::npos ? at + 1 : at - line_end);
    found_.what = json_problem(error);
    return false;
  }

 private:
  std::string_view text_;
  JsonProblem found_;
};

}  // namespace

// "[json.exception.parse_error.101] parse error at line 1, column 9: syntax error while parsing …"
std::string json_problem(const std::exception& error) {
  std::string_view text = error.what();
  const auto remove = [&](std::string_view begin, std::string_view end) {
    const std::size_t at = text.substr(0, begin.size()) == begin ? text.find(end) : std::string_view::npos;
    if (at != std::string_view::npos) text.remove_prefix(at + end.size());
  };
  remove("[json.", "] ");
  remove("parse error", ": ");
  return printable(text);
}

std::string JsonProblem::text() const {
  const std::string after = key.empty() ? "" : fmt::format(", after the key \"{}\"", key);
  return fmt::format("line {}, column {}{}: {}", line, column, after, what);
}

JsonProblem find_json_problem(std::string_view text) {
  ProblemSearch search(text);
  nlohmann::json::sax_parse(text.begin(), text.end(), &search);
  return search.found();
}

}  // namespace lockstep
