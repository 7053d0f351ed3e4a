#include "lockstep/data/texts/json_object_scan.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lockstep/data/images/split_mix.h"

namespace lockstep {
namespace {

using Values = std::vector<JsonValue>;

const std::vector<std::string>& scanned_keys() {
  static const std::vector<std::string> keys{"t", "l"};
  return keys;
}

// "text …|number …", or "not understood".
std::string shown(JsonObjectScan& scan, std::string_view line, std::size_t behind) {
  Values values(scanned_keys().size());
  if (!scan.scan(line, behind, scanned_keys(), values)) return "not understood";
  const char* const kinds[] = {"missing", "null", "text", "number", "boolean", "composite"};
  std::string out;
  for (const JsonValue& value : values) {
    out += std::string(out.empty() ? "" : "|") + kinds[static_cast<int>(value.kind)] + " ";
    out += value.text;
  }
  return out;
}

// Reads a line at the end of its memory, and with other bytes behind it: both must be read alike.
std::string scanned(const std::string& line) {
  JsonObjectScan scan;
  const std::vector<char> alone(line.begin(), line.end());
  const std::string at_end = shown(scan, {alone.data(), alone.size()}, 0);
  for (const char* const next : {"\n{\"l\": \"another line\"}", "\"}]e5true", "\xff\\"}) {
    std::string file = line;
    while (file.size() < line.size() + 128) file += next;
    const std::string_view whole = file;
    const std::string inside = shown(scan, whole.substr(0, line.size()), whole.size() - line.size());
    if (inside != at_end) return at_end + ", but before " + next + ": " + inside;
  }
  return at_end;
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
        ScannedLine{"composites", R"({"t": [1, {"t": "no"}], "l": {}})", R"(composite [1,{"t":"no"}]|composite )"},
        ScannedLine{"escapes", R"({"t": "\"\\\/\b\f\n\r\t\u0041\u00e9\u20AC", "l": ""})",
                    "text \"\\/\b\f\n\r\tA\xc3\xa9\xe2\x82\xac|text "},
        ScannedLine{"long_text_between_escapes",
                    "{\"t\": \"" + std::string(100, 'a') + "\\n" + std::string(40, 'b') + "\", \"l\": 0}",
                    "text " + std::string(100, 'a') + "\n" + std::string(40, 'b') + "|number 0"},
        ScannedLine{"integers", R"({"t": -9223372036854775808, "l": 18446744073709551615})",
                    "number -9223372036854775808|number 18446744073709551615"},
        ScannedLine{"fractions", R"({"t": -12.50e-3, "x": 0.1, "l" : 0.5E+07 })", "number -12.50e-3|number 0.5E+07"},
        ScannedLine{"last_of_equal_fractions", R"({"l": 2.5, "t": 3.50, "l": "a", "l": -0.0, "t": 3})",
                    "number 3|number -0.0"},
        ScannedLine{"escaped_key_of_a_fraction", R"({"\u0074": 1.50, "x": {"l": 2.5}, "l": 1e2})",
                    "number 1.50|number 1e2"},
        ScannedLine{"minus_zero", R"({"t": "a", "l": -0})", "text a|number 0"},
        ScannedLine{"unwanted_fraction", R"({"x": [-12.50e-3], "t": "a", "l": 1})", "text a|number 1"},
        ScannedLine{"other_scripts", "{\"t\": \"한국어\", \"l\": false}", "text 한국어|boolean false"},
        ScannedLine{"nested_62_deep", nested_line(62, "[", "]"), "text a|number 2"},
        ScannedLine{"nested_objects", nested_line(62, "{\"t\":", "}"), "text a|number 2"},
        ScannedLine{"nested_too_deep", nested_line(1024, "[", "]"), "not understood"},
        ScannedLine{"more_than_64_bits", R"({"t": "a", "l": 18446744073709551616})", "not understood"},
        ScannedLine{"invalid_bytes", "{\"t\": \"\xff\", \"l\": 1}", "not understood"},
        ScannedLine{"missing_key", R"({"t": "a"})", "not understood"},
        ScannedLine{"surrogates", R"({"t": "\ud83d\ude00", "l": 1})", "text \xf0\x9f\x98\x80|number 1"},
        ScannedLine{"overflow", R"({"t": "a", "l": 1e999})", "not understood"},
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
                      R"({"t": "\ud800", "l": 1})", R"({"t": "\udc00", "l": 1})", R"({"t": "\ud800\u0041", "l": 1})",
                      R"({"t": "\ud800\ud800", "l": 1})", R"({"t": "\ud800\n", "l": 1})",
                      R"({"\udfff": "", "t": 1, "l": 1})", R"({"t": "\u12", "l": 1})", R"({"t": "\u12g4", "l": 1})",
                      R"({"t": "a, "l": 1})", R"({"t": "a\", "l": 1})", "{\"t\": \"a\tb\", \"l\": 1}",
                      "{\"t\": \"a\nb\", \"l\": 1}", "{\"t\": \"a\x1f\", \"l\": 1}", R"({"t": 'a', "l": 1})", "[",
                      "{\"", "{\"t\": \"\\"));

// A line that it accepts is valid, and has equal values: randomly damaged lines, compared with the parser.
TEST(JsonScan, TakesForValidWhatIsValidAndPicksTheSame) {
  const std::string whole[] = {
      R"({"t": "a \"b\" \\ \u00e9 \n", "l": -12.5e3, "x": {"t": [1, 2.5e-3, {"y": null}], "z": "\t"}})",
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
    if (!scan.scan(line, 0, scanned_keys(), values)) continue;
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
