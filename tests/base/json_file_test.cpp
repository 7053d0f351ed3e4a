#include "lockstep/base/files/json_file.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

std::string repeated(const std::string& part, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += part;
  return text;
}

std::string refusal(const std::string& text) {
  try {
    parse_json_object(text, "/a/file.json");
  } catch (const Error& error) {
    return error.happened();
  }
  return "";
}

TEST(JsonFile, IsReadToADepthOf64) {
  const auto nested = [](int depth) { return repeated("{\"a\":", depth - 1) + "{}" + repeated("}", depth - 1); };
  EXPECT_EQ(refusal(nested(64)), "");
  EXPECT_NE(refusal(nested(65)).find("nested too deeply"), std::string::npos);
  EXPECT_NE(refusal(repeated("{\"a\":", 1000000)).find("nested too deeply"), std::string::npos);
  EXPECT_EQ(refusal("{\"" + repeated("[", 100) + "\\\"" + repeated("{", 100) + "\": 1}"), "") << "a text opens nothing";
  EXPECT_EQ(refusal("{\"a\": [" + repeated("[],", 1000) + "[]]}"), "");
}

// Comparing this many siblings with each other would take hours.
TEST(JsonFile, MayHaveManySiblings) {
  EXPECT_EQ(parse_json_object("{\"a\": [" + repeated("{},", 300000) + "{}]}", "x")->at("a").size(), 300001U);
}

TEST(JsonFile, NamesTheFileAndTheProblemInPlainWords) {
  for (const char* text : {"{\"a\": 1e999}", "{", "", "{\"a\": \"\x1b[31m\"}", "\xff"}) {
    const std::string said = refusal(text);
    EXPECT_NE(said.find("/a/file.json is not JSON: "), std::string::npos) << said;
    EXPECT_EQ(said.find("json.exception"), std::string::npos) << said;
    EXPECT_EQ(said.find('\x1b'), std::string::npos) << said;
  }
  EXPECT_NE(refusal("{\"a\": 2,\n \"rate\": 1e999}").find("line 2, column 14, after the key \"rate\": number overflow"),
            std::string::npos);
  EXPECT_NE(refusal("{\"a\": {\"b\": 2},\n \"c\": [1, }").find("line 2, column 11, after the key \"c\": syntax error"),
            std::string::npos);
  EXPECT_NE(refusal("[1, 2").find("line 1, column 6: syntax error"), std::string::npos);
  EXPECT_LT(refusal("{\"a\": \"" + std::string(1 << 20, 'A')).size(), 500U);
  EXPECT_NE(refusal("[1]").find("/a/file.json is not a JSON object"), std::string::npos);
}

}  // namespace
}  // namespace lockstep
