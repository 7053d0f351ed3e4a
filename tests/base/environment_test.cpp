#include "lockstep/base/environment.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

class Environment : public ::testing::Test {
 protected:
  void set(const char* text) { ::setenv("LOCKSTEP_TEST_VARIABLE", text, 1); }
  void TearDown() override { ::unsetenv("LOCKSTEP_TEST_VARIABLE"); }
  const std::string name_ = "LOCKSTEP_TEST_VARIABLE";
};

TEST_F(Environment, UnsetAndEmptyAreNothing) {
  EXPECT_EQ(env_string(name_), std::nullopt);
  set("");
  EXPECT_EQ(env_string(name_), std::nullopt);
  EXPECT_EQ(env_int(name_), std::nullopt);
  EXPECT_EQ(env_bool(name_), std::nullopt);
}

TEST_F(Environment, ReadsWholeNumbers) {
  set("-12");
  EXPECT_EQ(env_int(name_), -12);
}

TEST_F(Environment, RefusesTextThatIsNoNumberAndNamesTheVariable) {
  for (const char* text : {"12x", "1.5", " 3", "99999999999999999999"}) {
    set(text);
    try {
      env_int(name_);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(name_), std::string::npos);
    }
  }
}

TEST_F(Environment, ReadsSwitches) {
  set("Yes");
  EXPECT_EQ(env_bool(name_), true);
  set("OFF");
  EXPECT_EQ(env_bool(name_), false);
  set("maybe");
  EXPECT_THROW(env_bool(name_), Error);
}

}  // namespace
}  // namespace lockstep
