#include "lockstep/data/texts/json_object_scan.h"

#include <simdjson.h>

#include <algorithm>
#include <charconv>

namespace lockstep {
namespace {

template <typename Integer, typename Digits>
JsonValue number_value(Integer number, Digits& digits) {
  const char* const end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  return {JsonValue::Kind::Number, {digits.data(), static_cast<std::size_t>(end - digits.data())}};
}

}  // namespace

struct JsonObjectScan::Parsers {
  simdjson::dom::parser tree{kLongestLine};
  simdjson::ondemand::parser on_demand{kLongestLine};
};

JsonObjectScan::JsonObjectScan() : parsers_(std::make_unique<Parsers>()) {}

JsonObjectScan::~JsonObjectScan() = default;

bool JsonObjectScan::scan(std::string_view line, std::size_t behind, const std::vector<std::string>& keys,
                          std::vector<JsonValue>& values) {
  keys_ = &keys;
  if (behind < simdjson::SIMDJSON_PADDING) {
    padded_.assign(line).append(simdjson::SIMDJSON_PADDING, '\0');
    line = std::string_view(padded_).substr(0, line.size());
  }
  if (!scan_values(line, values)) return false;
  const bool has_fractions = std::find(fractions_.begin(), fractions_.end(), true) != fractions_.end();
  return !has_fractions || scan_fractions(line, values);
}

// simdjson checks all of the line here.
bool JsonObjectScan::scan_values(std::string_view line, std::vector<JsonValue>& values) {
  using simdjson::dom::element_type;
  using Kind = JsonValue::Kind;
  simdjson::dom::object object;
  if (parsers_->tree.parse(line.data(), line.size(), false).get(object) != simdjson::SUCCESS) return false;
  for (JsonValue& value : values) value.kind = Kind::Missing;
  digits_.resize(keys_->size());
  lists_.resize(keys_->size());
  fractions_.assign(keys_->size(), false);
  next_key_ = 0;
  for (const auto& [key, found] : object) {
    const std::size_t at = wanted_key(key);
    if (at == keys_->size()) continue;
    const element_type type = found.type();
    fractions_[at] = type == element_type::DOUBLE;
    if (type == element_type::STRING) {
      values[at] = {Kind::Text, found.get_string().value_unsafe()};
    } else if (type == element_type::INT64) {
      values[at] = number_value(found.get_int64().value_unsafe(), digits_[at]);
    } else if (type == element_type::UINT64) {
      values[at] = number_value(found.get_uint64().value_unsafe(), digits_[at]);
    } else if (type == element_type::DOUBLE) {
      values[at] = {Kind::Number, {}};
    } else if (type == element_type::BOOL) {
      values[at] = {Kind::Boolean, found.get_bool().value_unsafe() ? "true" : "false"};
    } else if (type == element_type::NULL_VALUE) {
      values[at] = {Kind::Null, {}};
    } else if (type == element_type::ARRAY) {
      lists_[at] = simdjson::minify(found);
      values[at] = {Kind::Composite, lists_[at]};
    } else if (type == element_type::OBJECT) {
      values[at] = {Kind::Composite, {}};
    } else {
      return false;
    }
  }
  return std::none_of(values.begin(), values.end(), [](const JsonValue& value) { return value.kind == Kind::Missing; });
}

// The tree has numbers as doubles. A second pass over a line that is known to be valid finds them as written.
bool JsonObjectScan::scan_fractions(std::string_view line, std::vector<JsonValue>& values) {
  simdjson::ondemand::document document;
  simdjson::ondemand::object object;
  const simdjson::padded_string_view padded(line, line.size() + simdjson::SIMDJSON_PADDING);
  if (parsers_->on_demand.iterate(padded).get(document) != simdjson::SUCCESS) return false;
  if (document.get_object().get(object) != simdjson::SUCCESS) return false;
  next_key_ = 0;
  for (auto field : object) {
    std::string_view key;
    if (field.unescaped_key().get(key) != simdjson::SUCCESS) return false;
    const std::size_t at = wanted_key(key);
    if (at == keys_->size() || !fractions_[at]) continue;
    const std::string_view token = field.value().raw_json_token().value_unsafe();  // with blanks behind it
    values[at].text = token.substr(0, token.find_first_of(" \t\r\n"));
  }
  return true;
}

// The position of `key` among the wanted ones; their number if it is not wanted.
std::size_t JsonObjectScan::wanted_key(std::string_view key) {
  for (std::size_t tried = 0; tried < keys_->size(); ++tried) {
    const std::size_t at = next_key_;
    next_key_ = at + 1 < keys_->size() ? at + 1 : 0;
    if ((*keys_)[at] == key) return at;
  }
  return keys_->size();
}

}  // namespace lockstep
