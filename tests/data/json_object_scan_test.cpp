#include "lockstep/data/texts/json_object_scan.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lockstep/data/images/split_mix.h"
#include "lockstep/data/text/unicode/utf8.h"

namespace lockstep {
namespace {

using Values = std::vector<JsonValue>;

const std::vector<std::string>& scanned_keys() {
  static const std::vector<std::string> keys{"t", "l"};
  return keys;
}

// "t=…,l=…" by kind, or "not understood".
std::string scanned(const std::string& line) {
  JsonObjectScan scan;
  Values values(scanned_keys().size());
  if (!scan.scan(line, scanned_keys(), values)) return "not understood";
  const char* const kinds[] = {"missing", "null", "text", "number", "boolean", "composite"};
  std::string out;
  for (const JsonValue& value : values) {
    out += std::string(out.empty() ? "" : "|") + kinds[static_cast<int>(value.kind)] + " " + value.text;
  }
  return out;
}

struct ScannedLine {
  const char* name;
  std::string line;
  std::string want;
  friend std::ostream& operator<<(std::ostream& out, const ScannedLine& scanned) { return out << scanned.name; }
};

class JsonScan : public ::testing::TestWithParam<ScannedLine> {};

TEST_P(JsonScan, PicksValues) { EXPECT_EQ(scanned(GetParam().line), GetParam().want); }

std::string nested_line(int depth, const std::string& open, const std::string& close) {
  std::string text = R"({"t": "a", "x": )";
  for (int i = 0; i < depth; ++i) text += open;
  text += "1";
  for (int i = 0; i < depth; ++i) text += close;
  return text + R"(, "l": 2})";
}

INSTANTIATE_TEST_SUITE_P(
    Table, JsonScan,
    ::testing::Values(
        ScannedLine{"plain", R"({"t": "a b", "l": 7})", "text a b|number 7"},
        ScannedLine{"other_order_and_blanks", "\t { \"x\" :1 ,\"l\" : \"c\" , \"t\":null } \r", "null |text c"},
        ScannedLine{"last_of_equal_keys", R"({"t": 1, "l": true, "t": "b"})", "text b|boolean true"},
        ScannedLine{"composites", R"({"t": [1, {"t": "no"}], "l": {}})", "composite |composite "},
        ScannedLine{"escapes", R"({"t": "\"\\\/\b\f\n\r\t\u0041\u00e9\u20AC", "l": ""})",
                    "text \"\\/\b\f\n\r\tA\xc3\xa9\xe2\x82\xac|text "},
        ScannedLine{"long_text_between_escapes",
                    "{\"t\": \"" + std::string(100, 'a') + "\\n" + std::string(40, 'b') + "\", \"l\": 0}",
                    "text " + std::string(100, 'a') + "\n" + std::string(40, 'b') + "|number 0"},
        ScannedLine{"numbers_as_they_stand", R"({"t": -12.50e-3, "l": 0.5E+07})", "number -12.50e-3|number 0.5E+07"},
        ScannedLine{"other_scripts", "{\"t\": \"한국어\", \"l\": false}", "text 한국어|boolean false"},
        ScannedLine{"nested_62_deep", nested_line(62, "[", "]"), "text a|number 2"},
        ScannedLine{"nested_objects", nested_line(62, "{\"t\":", "}"), "text a|number 2"},
        ScannedLine{"nested_too_deep", nested_line(64, "[", "]"), "not understood"},
        ScannedLine{"missing_key", R"({"t": "a"})", "not understood"},
        ScannedLine{"surrogates", R"({"t": "\ud83d\ude00", "l": 1})", "not understood"},
        ScannedLine{"minus_zero", R"({"t": "a", "l": -0})", "not understood"},
        ScannedLine{"overflow", R"({"t": "a", "l": 1e999})", "not understood"},
        ScannedLine{"byte_order_mark", "\xef\xbb\xbf{\"t\": 1, \"l\": 1}", "not understood"},
        ScannedLine{"array", R"([{"t": 1, "l": 1}])", "not understood"},
        ScannedLine{"empty_object", "{}", "not understood"}, ScannedLine{"nothing", "", "not understood"}),
    [](const auto& test) { return test.param.name; });

class JsonScanRefuses : public ::testing::TestWithParam<const char*> {};

TEST_P(JsonScanRefuses, WhatIsNoJson) {
  EXPECT_EQ(scanned(GetParam()), "not understood");
  EXPECT_FALSE(nlohmann::json::accept(std::string(GetParam())));
}

INSTANTIATE_TEST_SUITE_P(
    Table, JsonScanRefuses,
    ::testing::Values(R"({"t": 1, "l": 1)", R"({"t": 1, "l": 1}})", R"({"t": 1, "l": 1} x)", R"({"t": 1 "l": 1})",
                      R"({"t": 1, "l": 1,})", R"({,"t": 1, "l": 1})", R"({"t" 1, "l": 1})", R"({t: 1, "l": 1})",
                      R"({"t": 01, "l": 1})", R"({"t": +1, "l": 1})", R"({"t": 1., "l": 1})", R"({"t": .5, "l": 1})",
                      R"({"t": 1e, "l": 1})", R"({"t": -, "l": 1})", R"({"t": nul, "l": 1})", R"({"t": truer, "l": 1})",
                      R"({"t": [1,], "l": 1})", R"({"t": [1}, "l": 1})", R"({"t": {"a"}, "l": 1})",
                      R"({"t": {"a":1,}, "l": 1})", R"({"t": [1 2], "l": 1})", R"({"t": "\x", "l": 1})",
                      R"({"t": "\u12", "l": 1})", R"({"t": "\u12g4", "l": 1})", R"({"t": "a, "l": 1})",
                      R"({"t": "a\", "l": 1})", "{\"t\": \"a\tb\", \"l\": 1}", "{\"t\": \"a\nb\", \"l\": 1}",
                      "{\"t\": \"a\x1f\", \"l\": 1}", R"({"t": 'a', "l": 1})", "[", "{\"", "{\"t\": \"\\"));

// A line that it accepts is valid, and has equal values: randomly damaged lines, compared with the parser.
TEST(JsonScan, TakesForValidWhatIsValidAndPicksTheSame) {
  const std::string whole[] = {
      R"({"t": "a \"b\" \\ \u00e9 \n", "l": -12.5e3, "x": {"t": [1, 2, {"y": null}], "z": "\t"}})",
      R"({"l": "한국", "x": [[], {}, [true, false]], "t": "plain text that is longer than sixteen bytes"})"};
  const std::string bits = "\"\\{}[],:0123456789.eE+-truefalsn \t/bu\x01\n";
  SplitMix random(7);
  int valid = 0;
  for (int i = 0; i < 200000; ++i) {
    std::string line = whole[random.between(0, 1)];
    for (int change = random.between(0, 3); change > 0; --change) {
      const auto at = static_cast<std::size_t>(random.between(0, static_cast<int>(line.size()) - 1));
      const char bit = bits[static_cast<std::size_t>(random.between(0, static_cast<int>(bits.size()) - 1))];
      const int kind = random.between(0, 2);
      if (kind == 0) line[at] = bit;
      if (kind == 1) line.insert(at, 1, bit);
      if (kind == 2) line.erase(at, 1);
    }
    JsonObjectScan scan;
    Values values(scanned_keys().size());
    if (!text::is_valid_utf8(line) || !scan.scan(line, scanned_keys(), values)) continue;
    ++valid;
    const auto parsed = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(parsed.is_object()) << line;
    for (std::size_t key = 0; key < values.size(); ++key) {
      const nlohmann::json& want = parsed.at(scanned_keys()[key]);
      const JsonValue& got = values[key];
      ASSERT_EQ(got.kind == JsonValue::Kind::Text, want.is_string()) << line;
      ASSERT_EQ(got.kind == JsonValue::Kind::Number, want.is_number()) << line;
      ASSERT_EQ(got.kind == JsonValue::Kind::Boolean, want.is_boolean()) << line;
      ASSERT_EQ(got.kind == JsonValue::Kind::Composite, want.is_structured()) << line;
      const nlohmann::json as_json = want.is_number() ? nlohmann::json::parse(got.text) : nlohmann::json(got.text);
      if (!want.is_string() && !want.is_number()) continue;
      ASSERT_EQ(as_json, want) << line;
    }
  }
  EXPECT_GT(valid, 20000);  // among the damaged lines, those that stayed valid
}

}  // namespace
}  // namespace lockstep
