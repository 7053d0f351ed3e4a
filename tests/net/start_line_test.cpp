#include "lockstep/net/start_line.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

// This test's own command line: the program, and its arguments.
TEST(StartLine, StartsThisProgram) {
  const std::string line = start_line();
  EXPECT_EQ(line.rfind("lockstep run --nproc-per-node 2 ", 0), 0U) << line;
  EXPECT_NE(line.find("net_test"), std::string::npos) << line;
}

}  // namespace
}  // namespace lockstep
