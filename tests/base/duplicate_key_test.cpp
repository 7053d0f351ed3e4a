#include "lockstep/base/files/duplicate_key.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

std::string duplicate_in(const std::string& text) {
  try {
    refuse_duplicate_keys(text, "a.json");
  } catch (const Error& error) {
    return error.happened() + " | " + error.where();
  }
  return "";
}

TEST(DuplicateKey, IsNamedWithItsLineAndTheFirstOne) {
  EXPECT_EQ(duplicate_in("{\"a\": 1,\n \"b\": {\"a\": 2},\n \"a\": 3}"),
            "the key \"a\" occurs twice: here and in line 1 | a.json:3");
  EXPECT_EQ(duplicate_in("[{\"x\": {\"y\": 1,\n\"y\": 2}}]"),
            "the key \"y\" occurs twice: here and in line 1 | a.json:2");
}

// Counting the lines before each key from the first one on would take hours here.
TEST(DuplicateKey, IsFoundBehindManyOthers) {
  std::string text = "{";
  for (int i = 0; i < 200000; ++i) text += "\"" + std::to_string(i) + "\": " + std::string(20, ' ') + "1,\n";
  EXPECT_EQ(duplicate_in(text + "\"7\": 1}"), "the key \"7\" occurs twice: here and in line 8 | a.json:200001");
  std::string nested;
  for (int i = 0; i < 200000; ++i) nested += "{\"a\":";
  EXPECT_EQ(duplicate_in(nested), "") << "left to the parser";
}

TEST(DuplicateKey, OfOtherObjectsIsNone) {
  EXPECT_EQ(duplicate_in(R"({"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]})"), "");
  EXPECT_EQ(duplicate_in(""), "");
  EXPECT_EQ(duplicate_in("{\"a\": 1, \"a"), "") << "left to the parser";
}

}  // namespace
}  // namespace lockstep
