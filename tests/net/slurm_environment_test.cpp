#include "lockstep/net/environment/slurm_environment.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <map>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/net/launcher_environment.h"
#include "lockstep/net/start_line.h"

namespace lockstep {
namespace {

using Strings = std::vector<std::string>;

TEST(SlurmHostList, ExpandsWhatScontrolExpands) {  // the right sides are the output of `scontrol show hostnames`
  EXPECT_EQ(expand_host_list("node1"), (Strings{"node1"}));
  EXPECT_EQ(expand_host_list("n1,n2,login"), (Strings{"n1", "n2", "login"}));
  EXPECT_EQ(expand_host_list("gpu[01-03,7]"), (Strings{"gpu01", "gpu02", "gpu03", "gpu7"}));
  EXPECT_EQ(expand_host_list("gpu[099-101],x"), (Strings{"gpu099", "gpu100", "gpu101", "x"}));
  EXPECT_EQ(expand_host_list("r[1-2]n[3-4]"), (Strings{"r1n3", "r1n4", "r2n3", "r2n4"}));
}

TEST(SlurmHostList, TakesATextAfterBrackets) {
  EXPECT_EQ(expand_host_list("gpu[9-10]-ib,x"), (Strings{"gpu9-ib", "gpu10-ib", "x"}));
}

TEST(SlurmHostList, RefusesWhatIsNone) {
  for (const char* text : {"", "a,,b", "n[1-3", "n1-3]", "n[[1]]", "n[3-1]", "n[a-b]", "n[]", "n[1-99999999999]"}) {
    EXPECT_THROW(expand_host_list(text), Error) << text;
  }
}

TEST(SlurmTaskCounts, ExpandFactors) {
  EXPECT_EQ(expand_task_counts("4"), (std::vector<int>{4}));
  EXPECT_EQ(expand_task_counts("2(x3),1"), (std::vector<int>{2, 2, 2, 1}));
  for (const char* text : {"", "x", "2(x", "2(x3", "2(3)", "2(x99999999999)", "2(x0)", "-1"}) {
    EXPECT_THROW(expand_task_counts(text), Error) << text;
  }
}

// A list is bounded as a whole: many items, many ranges in one bracket, and long names.
TEST(SlurmHostList, IsBounded) {
  EXPECT_EQ(expand_host_list("n[1-65536]").size(), 65536U);
  EXPECT_EQ(expand_host_list("n[1-32768],m[1-32768]").size(), 65536U);
  EXPECT_EQ(expand_host_list(std::string(255, 'n')).size(), 1U);
  const std::string zeros(300, '0');
  for (const std::string& text :
       {std::string("n[1-65537]"), std::string("n[1-32768],m[1-32769]"), std::string("n[1-32768,1-32769]"),
        std::string("n[1-256]m[1-257]"), std::string(256, 'n'), "n[" + zeros + "1]", "n[1]" + std::string(255, 'm')}) {
    EXPECT_THROW(expand_host_list(text), Error) << text;
  }
  EXPECT_EQ(expand_task_counts("1(x65536)").size(), 65536U);
  EXPECT_THROW(expand_task_counts("1(x65535),1,1"), Error);
}

class SlurmEnvironment : public ::testing::Test {
 protected:
  // Rank 4 of 5: the second task of the third host.
  std::map<std::string, std::string> step_{{"SLURM_JOB_ID", "71234"},
                                           {"SLURM_STEP_ID", "2"},
                                           {"SLURM_PROCID", "4"},
                                           {"SLURM_LOCALID", "1"},
                                           {"SLURM_NODEID", "2"},
                                           {"SLURM_STEP_NUM_TASKS", "5"},
                                           {"SLURM_STEP_NODELIST", "n[07-09]"},
                                           {"SLURM_STEP_TASKS_PER_NODE", "2,1,2"}};

  void SetUp() override { clear(); }
  void TearDown() override { clear(); }
  void clear() {
    for (const auto& [name, value] : step_) ::unsetenv(name.c_str());
    for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR",
                             "MASTER_PORT", "TORCHELASTIC_RUN_ID", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                             "SLURM_NTASKS", "SLURM_STEP_NUM_TASKS"}) {
      ::unsetenv(name);
    }
  }
  void apply() {
    for (const auto& [name, value] : step_) ::setenv(name.c_str(), value.c_str(), 1);
  }
};

TEST_F(SlurmEnvironment, GivesTheVariablesOfTorchrun) {
  apply();
  adopt_launcher_environment();
  const std::map<std::string, std::string> wanted{{"RANK", "4"},
                                                  {"WORLD_SIZE", "5"},
                                                  {"LOCAL_RANK", "1"},
                                                  {"LOCAL_WORLD_SIZE", "2"},
                                                  {"GROUP_RANK", "2"},
                                                  {"MASTER_ADDR", "n07"},
                                                  {"MASTER_PORT", "16236"},
                                                  {"TORCHELASTIC_RUN_ID", "slurm-71234.2-0"}};
  for (const auto& [name, value] : wanted) EXPECT_EQ(env_string(name), value) << name;
}

TEST_F(SlurmEnvironment, LeavesWhatTheUserSet) {
  apply();
  ::setenv("MASTER_PORT", "4711", 1);
  adopt_launcher_environment();
  EXPECT_EQ(env_string("MASTER_PORT"), "4711");
  clear();
  apply();
  ::setenv("RANK", "0", 1);  // another launcher runs inside the step
  adopt_launcher_environment();
  EXPECT_FALSE(env_string("WORLD_SIZE"));
}

TEST_F(SlurmEnvironment, OfMpirunInsideAStepIsMpiruns) {
  apply();
  ::setenv("OMPI_COMM_WORLD_RANK", "1", 1);
  ::setenv("OMPI_COMM_WORLD_SIZE", "8", 1);
  adopt_launcher_environment();
  EXPECT_EQ(env_string("RANK"), "1");
  EXPECT_EQ(env_string("WORLD_SIZE"), "8");
}

TEST_F(SlurmEnvironment, ThatDoesNotFitIsRefusedByName) {
  const std::vector<std::pair<std::string, std::string>> wrong{{"SLURM_PROCID", "5"},
                                                               {"SLURM_LOCALID", "2"},
                                                               {"SLURM_NODEID", "3"},
                                                               {"SLURM_PROCID", "-1"},
                                                               {"SLURM_NODEID", ""},
                                                               {"SLURM_STEP_TASKS_PER_NODE", "2,1,1"},
                                                               {"SLURM_STEP_TASKS_PER_NODE", "2,3"}};
  for (const auto& [name, value] : wrong) {
    clear();
    apply();
    ::setenv(name.c_str(), value.c_str(), 1);
    try {
      adopt_launcher_environment();
      ADD_FAILURE() << name << "=" << value << " was taken";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  }
}

TEST_F(SlurmEnvironment, OfAJobsScriptIsNoStep) {
  ::setenv("SLURM_JOB_ID", "71234", 1);
  ::setenv("SLURM_PROCID", "0", 1);  // sbatch sets it for the script itself
  ::setenv("SLURM_NTASKS", "4", 1);
  EXPECT_FALSE(slurm_step());
  EXPECT_EQ(slurm_tasks_without_step(), 4);
  adopt_launcher_environment();
  EXPECT_FALSE(env_string("RANK"));
  EXPECT_EQ(start_line().rfind("srun ", 0), 0U) << start_line();
}

}  // namespace
}  // namespace lockstep
