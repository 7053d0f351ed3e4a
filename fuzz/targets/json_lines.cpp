#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fuzz/fuzz_target.h"
#include "fuzz/targets/targets.h"
#include "lockstep/data/text/unicode/utf8.h"
#include "lockstep/data/texts/json_object_scan.h"

namespace lockstep::fuzz {
namespace {

using nlohmann::json;

void check_value(const JsonValue& value, const json& want) {
  switch (value.kind) {
    case JsonValue::Kind::Missing:
      LOCKSTEP_HOLDS(!"a missing key must be left to the full parser");
      break;
    case JsonValue::Kind::Null:
      LOCKSTEP_HOLDS(want.is_null());
      break;
    case JsonValue::Kind::Text:
      LOCKSTEP_HOLDS(want.is_string() && want.get_ref<const std::string&>() == value.text);
      break;
    case JsonValue::Kind::Number:
      LOCKSTEP_HOLDS(want.is_number() && json::parse(value.text) == want);
      break;
    case JsonValue::Kind::Boolean:
      LOCKSTEP_HOLDS(want.is_boolean() && value.text == (want.get<bool>() ? "true" : "false"));
      break;
    case JsonValue::Kind::Composite:
      LOCKSTEP_HOLDS(want.is_structured());
      break;
  }
}

// The full parser refuses numbers out of double's range, which are JSON.
bool may_overflow(std::string_view line) {
  return line.find_first_of("eE") != std::string_view::npos || line.size() > 300;
}

}  // namespace

void run_json_lines(std::string_view bytes) {
  if (!text::is_valid_utf8(bytes)) return;  // the reader of lines has refused it
  const std::vector<std::string> keys{"text", "label", "a"};
  std::vector<JsonValue> values(keys.size());
  if (!JsonObjectScan().scan(bytes, keys, values)) return;
  const json line = json::parse(bytes, nullptr, false);
  if (line.is_discarded() && may_overflow(bytes)) return;
  LOCKSTEP_HOLDS(line.is_object());
  for (std::size_t i = 0; i < keys.size(); ++i) check_value(values[i], line.at(keys[i]));
}

}  // namespace lockstep::fuzz
