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

}  // namespace

void run_json_lines(std::string_view bytes) {
  const std::vector<std::string> keys{"text", "label", "a"};
  std::vector<JsonValue> values(keys.size());
  JsonObjectScan scan;
  const std::string file = std::string(bytes) + std::string(bytes) + std::string(64, '"');
  std::vector<JsonValue> inside(keys.size());
  JsonObjectScan inside_scan;
  const bool understood = scan.scan(bytes, 0, keys, values);
  LOCKSTEP_HOLDS(understood == inside_scan.scan(std::string_view(file).substr(0, bytes.size()),
                                                file.size() - bytes.size(), keys, inside));
  if (!understood) return;
  LOCKSTEP_HOLDS(text::is_valid_utf8(bytes));
  const json line = json::parse(bytes, nullptr, false);
  LOCKSTEP_HOLDS(line.is_object());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    LOCKSTEP_HOLDS(inside[i].kind == values[i].kind && inside[i].text == values[i].text);
    check_value(values[i], line.at(keys[i]));
  }
}

}  // namespace lockstep::fuzz
