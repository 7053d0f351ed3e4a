#include "lockstep/base/duplicate_key.h"

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
            "the key \"a\" comes twice: here and in line 1 | a.json:3");
  EXPECT_EQ(duplicate_in("[{\"x\": {\"y\": 1,\n\"y\": 2}}]"),
            "the key \"y\" comes twice: here and in line 1 | a.json:2");
}

TEST(DuplicateKey, OfOtherObjectsIsNone) {
  EXPECT_EQ(duplicate_in(R"({"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]})"), "");
  EXPECT_EQ(duplicate_in(""), "");
  EXPECT_EQ(duplicate_in("{\"a\": 1, \"a"), "") << "left to the parser";
}

}  // namespace
}  // namespace lockstep
