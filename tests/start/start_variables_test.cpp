#include "lockstep/start/start_variables.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <map>

#include "lockstep/base/error.h"
#include "lockstep/start/process_threads.h"

namespace lockstep {
namespace {

using Map = std::map<std::string, std::string>;

class StartVariablesOf : public ::testing::Test {
 protected:
  static constexpr const char* kNames[] = {"OMP_NUM_THREADS",   "OPENBLAS_NUM_THREADS",   "MKL_NUM_THREADS",
                                           "OPENBLAS_CORETYPE", "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_",
                                           "GLIBC_TUNABLES",    "LOCKSTEP_CHOSEN",        "LOCKSTEP_MALLOC",
                                           "LOCAL_WORLD_SIZE"};
  void SetUp() override { clear(); }
  void TearDown() override { clear(); }
  static void clear() {
    for (const char* name : kNames) ::unsetenv(name);
  }
  static Map map_of(const StartVariables& variables) { return {variables.begin(), variables.end()}; }
  static void adopt(const StartVariables& variables) {
    for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  }
};

TEST_F(StartVariablesOf, ARankNameThreadsAndHeapAndWhatWasChosen) {
  const Map variables = map_of(variables_for_rank(3));
  EXPECT_EQ(variables.at("OMP_NUM_THREADS"), "3");
  EXPECT_EQ(variables.at("OPENBLAS_NUM_THREADS"), "3");
  EXPECT_EQ(variables.at("MKL_NUM_THREADS"), "3");
  EXPECT_EQ(variables.count("MALLOC_TRIM_THRESHOLD_"), 1U);
  EXPECT_NE(variables.at("LOCKSTEP_CHOSEN").find("OMP_NUM_THREADS=3"), std::string::npos);
}

TEST_F(StartVariablesOf, LeaveTheUsersChoice) {
  ::setenv("OMP_NUM_THREADS", "5", 1);
  ::setenv("OPENBLAS_CORETYPE", "Haswell", 1);
  ::setenv("GLIBC_TUNABLES", "", 1);
  EXPECT_EQ(map_of(variables_for_rank(3)), (Map{{"LOCKSTEP_CHOSEN", ""}})) << "the others follow OMP_NUM_THREADS";
  ::unsetenv("OMP_NUM_THREADS");
  ::setenv("OPENBLAS_NUM_THREADS", "5", 1);
  const Map variables = map_of(variables_for_rank(3));
  EXPECT_EQ(variables.at("OMP_NUM_THREADS"), "3");
  EXPECT_EQ(variables.count("OPENBLAS_NUM_THREADS"), 0U);
}

// A launcher inside a rank, or started by a benchmark, shares what its own process was given.
TEST_F(StartVariablesOf, ChooseAnewWhatLockstepChoseAndDivideIt) {
  adopt(variables_for_rank(4));
  EXPECT_EQ(chosen_by("OMP_NUM_THREADS"), "lockstep");
  EXPECT_FALSE(is_users_choice("GLIBC_TUNABLES"));
  EXPECT_LE(cores_to_share(), 4);
  const Map inner = map_of(variables_for_rank(2));
  EXPECT_EQ(inner.at("OMP_NUM_THREADS"), "2");
  EXPECT_EQ(inner.count("MALLOC_TRIM_THRESHOLD_"), 1U);
}

TEST_F(StartVariablesOf, TakeAChangedValueForTheUsers) {
  adopt(variables_for_rank(4));
  ::setenv("OMP_NUM_THREADS", "1", 1);
  EXPECT_EQ(chosen_by("OMP_NUM_THREADS"), "user");
  EXPECT_EQ(map_of(variables_for_rank(2)).count("OMP_NUM_THREADS"), 0U);
  const auto names = chosen_names();
  EXPECT_EQ(std::count(names.begin(), names.end(), "OMP_NUM_THREADS"), 0);
  EXPECT_EQ(std::count(names.begin(), names.end(), "MKL_NUM_THREADS"), 1);
}

TEST_F(StartVariablesOf, ThisProcessAddOnlyWhatIsMissing) {
  adopt(variables_for_rank(4));
  EXPECT_TRUE(variables_for_this_process(/*heap=*/true).empty()) << "its launcher has seen to all";
  clear();
  ::setenv("LOCAL_WORLD_SIZE", "100000", 1);
  ::setenv("OPENBLAS_CORETYPE", "Haswell", 1);
  const Map variables = map_of(variables_for_this_process(/*heap=*/false));
  EXPECT_EQ(variables.at("OMP_NUM_THREADS"), "1");
  EXPECT_EQ(variables.count("OPENBLAS_CORETYPE"), 0U);
  EXPECT_EQ(variables.count("GLIBC_TUNABLES"), 0U);
}

TEST_F(StartVariablesOf, SayWhichVariableCannotBeRead) {
  ::setenv("LOCKSTEP_MALLOC", "some", 1);
  EXPECT_THROW(variables_for_rank(1), Error);
  EXPECT_NO_THROW(variables_for_this_process(/*heap=*/false));
}

}  // namespace
}  // namespace lockstep
