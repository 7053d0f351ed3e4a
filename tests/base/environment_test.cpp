#include "lockstep/base/environment.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "lockstep/base/environment_check.h"
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

struct Unreadable {
  const char* name;
  const char* value;
};
class UnreadableEnvironment : public ::testing::TestWithParam<Unreadable> {};

TEST_P(UnreadableEnvironment, IsNamed) {
  const auto before = env_string(GetParam().name);
  ::setenv(GetParam().name, GetParam().value, 1);
  try {
    require_readable_environment();
    ADD_FAILURE() << GetParam().value;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(GetParam().name), std::string::npos) << error.what();
  }
  before ? ::setenv(GetParam().name, before->c_str(), 1) : ::unsetenv(GetParam().name);
}

INSTANTIATE_TEST_SUITE_P(Table, UnreadableEnvironment,
                         ::testing::Values(Unreadable{"OMP_NUM_THREADS", "abc"}, Unreadable{"OMP_NUM_THREADS", "0"},
                                           Unreadable{"OMP_NUM_THREADS", "2,"}, Unreadable{"OMP_NUM_THREADS", "-1"},
                                           Unreadable{"OPENBLAS_NUM_THREADS", "two"},
                                           Unreadable{"LOCKSTEP_TIMEOUT_S", "abc"},
                                           Unreadable{"LOCKSTEP_TIMEOUT_S", "0"},
                                           Unreadable{"LOCKSTEP_JOIN_TIMEOUT_S", "-1"}));

TEST(ReadableEnvironment, TakesNumbersOfThreadsForNestedLoops) {
  const auto before = env_string("OMP_NUM_THREADS");
  for (const char* value : {"1", "4,2"}) {
    ::setenv("OMP_NUM_THREADS", value, 1);
    EXPECT_NO_THROW(require_readable_environment()) << value;
  }
  before ? ::setenv("OMP_NUM_THREADS", before->c_str(), 1) : ::unsetenv("OMP_NUM_THREADS");
}

}  // namespace
}  // namespace lockstep
