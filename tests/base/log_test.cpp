#include "lockstep/base/log.h"

#include <gtest/gtest.h>

#include <sstream>

namespace lockstep {
namespace {

TEST(LogRedirection, GetsTheLinesOfItsTimeAlone) {
  std::ostringstream first;
  std::ostringstream second;
  {
    const LogRedirection log(first);
    log_warning("a {} fish", "cold");
    set_log_rank(3);
    log_warning("late\x1b[31m");
    set_log_rank(-1);
    log_debug("not at this level");
  }
  {
    const LogRedirection log(second);
    log_warning("another");
  }
  EXPECT_NE(first.str().find(" warning a cold fish\n"), std::string::npos) << first.str();
  EXPECT_NE(first.str().find(" warning [rank 3] late\\x1b[31m\n"), std::string::npos) << first.str();
  EXPECT_EQ(first.str().find("not at this level"), std::string::npos) << first.str();
  EXPECT_EQ(first.str().find("another"), std::string::npos) << first.str();
  EXPECT_NE(second.str().find(" warning another\n"), std::string::npos) << second.str();
}

}  // namespace
}  // namespace lockstep
