#include "lockstep/base/files/json_problem.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(JsonProblem, IsTheLastCharacterThatWasRead) {
  const JsonProblem number = find_json_problem("{\"a\": 1,\n \"rate\": 1e999}");
  EXPECT_EQ(number.line, 2);
  EXPECT_EQ(number.key, "rate");
  const JsonProblem comma = find_json_problem("{\n  \"a\": ,\n}");
  EXPECT_EQ(comma.line, 2);
  EXPECT_EQ(comma.column, 8);
}

// A text that contains a line end: the line end is the problem, not the line behind it.
TEST(JsonProblem, MayBeALineEnd) {
  const JsonProblem problem = find_json_problem("{\"a\n: \"\"}");
  EXPECT_EQ(problem.line, 1);
  EXPECT_EQ(problem.column, 4);
}

}  // namespace
}  // namespace lockstep
