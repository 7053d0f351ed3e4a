// Two texts of each line of JSON Lines: JsonObjectScan and simdjson.
#include <simdjson.h>

#include <cstring>

#include "bench/libraries/turns.h"
#include "lockstep/data/files/file_bytes.h"
#include "lockstep/data/text/unicode/utf8.h"
#include "lockstep/data/texts/json_object_scan.h"

namespace {

template <typename Line>
std::size_t over_lines(std::string_view file, Line&& line) {
  std::size_t bytes = 0;
  for (std::size_t begin = 0; begin < file.size();) {
    const std::size_t end = std::min(file.find('\n', begin), file.size());
    bytes += line(file.substr(begin, end - begin));
    begin = end + 1;
  }
  return bytes;
}

std::size_t refuse(const char* who) {
  std::fprintf(stderr, "%s refuses a line\n", who);
  std::exit(1);
}

// As read_json_lines_texts does: all of the line is checked.
std::size_t with_lockstep(std::string_view file) {
  lockstep::JsonObjectScan scan;
  const std::vector<std::string> keys{"review", "division"};
  std::vector<lockstep::JsonValue> values(2);
  return over_lines(file, [&](std::string_view line) {
    if (!lockstep::text::is_valid_utf8(line) || !scan.scan(line, keys, values)) return refuse("JsonObjectScan");
    return values[0].text.size() + values[1].text.size();
  });
}

// simdjson reads a few bytes behind a line, so it copies the line.
std::size_t with_tree(std::string_view file) {
  simdjson::dom::parser parser;
  return over_lines(file, [&](std::string_view line) {
    std::string_view review;
    std::string_view division;
    const auto object = parser.parse(line.data(), line.size());
    if (object["review"].get(review) != 0 || object["division"].get(division) != 0) return refuse("simdjson's dom");
    return review.size() + division.size();
  });
}

// Values that are not asked for are skipped, and not checked.
std::size_t on_demand(std::string_view file, std::size_t padding) {
  simdjson::ondemand::parser parser;
  return over_lines(file, [&](std::string_view line) {
    std::string_view review;
    std::string_view division;
    auto object = parser.iterate(line.data(), line.size(), line.size() + padding);
    if (object["review"].get(review) != 0 || object["division"].get(division) != 0)
      return refuse("simdjson's ondemand");
    return review.size() + division.size();
  });
}

}  // namespace

int main(int, char** argv) {
  const lockstep::FileBytes file = lockstep::FileBytes::open(argv[1]);
  std::string padded(file.view());
  padded.append(simdjson::SIMDJSON_PADDING, '\0');
  const std::string_view text(padded.data(), file.view().size());
  lockstep::print_turns(
      "texts of JSON Lines", text.size(),
      {{"JsonObjectScan", [&] { return with_lockstep(text); }},
       {"simdjson, dom", [&] { return with_tree(text); }},
       {"simdjson, ondemand: does not check the rest", [&] { return on_demand(text, simdjson::SIMDJSON_PADDING); }}});
}
