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
                                           "LOCAL_WORLD_SIZE",  "ONEDNN_MAX_CPU_ISA",     "DNNL_MAX_CPU_ISA",
                                           "OMP_WAIT_POLICY",   "GOMP_SPINCOUNT",         "KMP_BLOCKTIME"};
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
  const Map variables = map_of(variables_for_rank(3, 1));
  EXPECT_EQ(variables.at("OMP_NUM_THREADS"), "3");
  EXPECT_EQ(variables.at("OPENBLAS_NUM_THREADS"), "3");
  EXPECT_EQ(variables.at("MKL_NUM_THREADS"), "3");
  EXPECT_EQ(variables.count("MALLOC_TRIM_THRESHOLD_"), 1U);
  EXPECT_NE(variables.at("LOCKSTEP_CHOSEN").find("OMP_NUM_THREADS=3"), std::string::npos);
}

TEST_F(StartVariablesOf, LeaveTheUsersChoice) {
  ::setenv("OMP_NUM_THREADS", "5", 1);
  ::setenv("OPENBLAS_CORETYPE", "Haswell", 1);
  ::setenv("ONEDNN_MAX_CPU_ISA", "ALL", 1);
  ::setenv("OMP_WAIT_POLICY", "active", 1);
  ::setenv("GLIBC_TUNABLES", "", 1);
  EXPECT_EQ(map_of(variables_for_rank(3, 1)), (Map{{"LOCKSTEP_CHOSEN", ""}})) << "the others follow OMP_NUM_THREADS";
  ::unsetenv("OMP_NUM_THREADS");
  ::setenv("OPENBLAS_NUM_THREADS", "5", 1);
  const Map variables = map_of(variables_for_rank(3, 1));
  EXPECT_EQ(variables.at("OMP_NUM_THREADS"), "3");
  EXPECT_EQ(variables.count("OPENBLAS_NUM_THREADS"), 0U);
}

// A launcher inside a rank, or started by a benchmark, divides the threads that its own process got.
TEST_F(StartVariablesOf, ChooseAnewWhatLockstepChoseAndDivideIt) {
  adopt(variables_for_rank(4, 1));
  EXPECT_EQ(chosen_by("OMP_NUM_THREADS"), "lockstep");
  EXPECT_FALSE(is_users_choice("GLIBC_TUNABLES"));
  EXPECT_LE(cores_to_share(), 4);
  const Map inner = map_of(variables_for_rank(2, 1));
  EXPECT_EQ(inner.at("OMP_NUM_THREADS"), "2");
  EXPECT_EQ(inner.count("MALLOC_TRIM_THRESHOLD_"), 1U);
}

TEST_F(StartVariablesOf, TakeAChangedValueForTheUsers) {
  adopt(variables_for_rank(4, 1));
  ::setenv("OMP_NUM_THREADS", "1", 1);
  EXPECT_EQ(chosen_by("OMP_NUM_THREADS"), "user");
  EXPECT_EQ(map_of(variables_for_rank(2, 1)).count("OMP_NUM_THREADS"), 0U);
  const auto names = chosen_names();
  EXPECT_EQ(std::count(names.begin(), names.end(), "OMP_NUM_THREADS"), 0);
  EXPECT_EQ(std::count(names.begin(), names.end(), "MKL_NUM_THREADS"), 1);
}

TEST_F(StartVariablesOf, ThisProcessAddOnlyWhatIsMissing) {
  adopt(variables_for_rank(4, 1));
  EXPECT_TRUE(variables_for_this_process(/*heap=*/true).empty()) << "its launcher has seen to all";
  clear();
  ::setenv("LOCAL_WORLD_SIZE", "100000", 1);
  ::setenv("OPENBLAS_CORETYPE", "Haswell", 1);
  const Map variables = map_of(variables_for_this_process(/*heap=*/false));
  EXPECT_EQ(variables.at("OMP_NUM_THREADS"), "1");
  EXPECT_EQ(variables.count("OPENBLAS_CORETYPE"), 0U);
  EXPECT_EQ(variables.count("GLIBC_TUNABLES"), 0U);
}

// For example a program that took all cores calls mpirun: its ranks inherit its environment.
TEST_F(StartVariablesOf, ThisProcessDividesWhatAnotherNumberOfRanksWasGiven) {
  adopt(variables_for_rank(8, 1));
  EXPECT_EQ(inherited_threads(), 8);
  ::setenv("LOCAL_WORLD_SIZE", "4", 1);
  EXPECT_EQ(inherited_threads(), 2);
  const StartVariables chosen = variables_for_this_process(/*heap=*/false);
  const Map variables = map_of(chosen);
  for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"}) {
    ASSERT_EQ(variables.count(name), 1U) << name;
    EXPECT_EQ(variables.at(name), std::to_string(std::min(2, threads_of_process()))) << name;
  }
  EXPECT_EQ(variables.count("GLIBC_TUNABLES"), 0U) << "the heap is not of one process alone";
  adopt(chosen);
  EXPECT_EQ(chosen_by("OMP_NUM_THREADS"), "lockstep");
  EXPECT_EQ(chosen_by("GLIBC_TUNABLES"), "lockstep");
  EXPECT_TRUE(variables_for_this_process(/*heap=*/false).empty()) << "a child of this rank that is alone";
}

TEST_F(StartVariablesOf, ThisProcessForgetsWhatWasChosenOnAnotherHost) {
  StartVariables variables = variables_for_rank(1, 1);
  std::string& list = variables.back().second;
  const std::string host = "on_host=";
  const std::size_t at = list.find(host);
  ASSERT_NE(at, std::string::npos) << list;
  list.insert(at + host.size(), "not-");
  adopt(variables);
  EXPECT_EQ(inherited_threads(), 0);
  EXPECT_EQ(map_of(variables_for_this_process(/*heap=*/false)).at("OMP_NUM_THREADS"),
            std::to_string(threads_of_process()));
}

// OpenBLAS gives its own variable precedence.
TEST_F(StartVariablesOf, FollowTheUserWhoChangesThreadsAfterLockstepChose) {
  adopt(variables_for_rank(4, 1));
  ::setenv("OMP_NUM_THREADS", "3,2", 1);
  for (const Map& variables : {map_of(variables_for_rank(2, 2)), map_of(variables_for_this_process(false))}) {
    EXPECT_EQ(variables.count("OMP_NUM_THREADS"), 0U);
    EXPECT_EQ(variables.at("OPENBLAS_NUM_THREADS"), "3");
    EXPECT_EQ(variables.at("MKL_NUM_THREADS"), "3");
  }
}

TEST_F(StartVariablesOf, KeepOnednnFromTilesThatAreNotDescribed) {
  const auto none = [](const std::string&) { return false; };
  const Map both{{"ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16"}, {"DNNL_MAX_CPU_ISA", "AVX512_CORE_BF16"}};
  EXPECT_EQ(map_of(onednn_variables(Amx::Undescribed, none)), both);
  EXPECT_TRUE(onednn_variables(Amx::Described, none).empty());
  EXPECT_TRUE(onednn_variables(Amx::Absent, none).empty());
}

// oneDNN gives its newer name precedence, so it must not be set beside the user's older one.
TEST_F(StartVariablesOf, LeaveTheUsersChoiceOfInstructionsUnderEitherName) {
  const auto newer = [](const std::string& name) { return name == "ONEDNN_MAX_CPU_ISA"; };
  const auto older = [](const std::string& name) { return name == "DNNL_MAX_CPU_ISA"; };
  EXPECT_TRUE(onednn_variables(Amx::Undescribed, newer).empty());
  EXPECT_TRUE(onednn_variables(Amx::Undescribed, older).empty());
}

TEST_F(StartVariablesOf, LetIdleThreadsSleepUnlessTheUserChose) {
  const Map both{{"GOMP_SPINCOUNT", "20000"}, {"KMP_BLOCKTIME", "1"}};
  EXPECT_EQ(map_of(spin_variables([](const std::string&) { return false; })), both);
  EXPECT_TRUE(spin_variables([](const std::string& name) { return name == "OMP_WAIT_POLICY"; }).empty());
  const Map one{{"KMP_BLOCKTIME", "1"}};
  EXPECT_EQ(map_of(spin_variables([](const std::string& name) { return name == "GOMP_SPINCOUNT"; })), one);
  ::setenv("GOMP_SPINCOUNT", "5", 1);
  const Map variables = map_of(variables_for_this_process(/*heap=*/false));
  EXPECT_EQ(variables.count("GOMP_SPINCOUNT"), 0U);
  EXPECT_EQ(variables.at("KMP_BLOCKTIME"), "1");
}

TEST_F(StartVariablesOf, SayWhichVariableCannotBeRead) {
  ::setenv("LOCKSTEP_MALLOC", "some", 1);
  EXPECT_THROW(variables_for_rank(1, 1), Error);
  EXPECT_NO_THROW(variables_for_this_process(/*heap=*/false));
}

}  // namespace
}  // namespace lockstep
