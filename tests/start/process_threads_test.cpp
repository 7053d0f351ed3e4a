#include "lockstep/start/process_threads.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

class RanksOnHost : public ::testing::Test {
 protected:
  static constexpr const char* kNames[] = {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
                                           "MPI_LOCALNRANKS",  "SLURM_STEP_NUM_TASKS",
                                           "SLURM_NODEID",     "SLURM_STEP_TASKS_PER_NODE"};
  void SetUp() override { clear(); }
  void TearDown() override { clear(); }
  static void clear() {
    for (const char* name : kNames) ::unsetenv(name);
  }
  static int with(const std::map<std::string, std::string>& variables) {
    clear();
    for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
    return ranks_on_host();
  }
};

TEST_F(RanksOnHost, AreWhatTheLauncherSays) {
  EXPECT_EQ(with({}), 1);
  EXPECT_EQ(with({{"LOCAL_WORLD_SIZE", "3"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}}), 3);
  EXPECT_EQ(with({{"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}}), 4);
  EXPECT_EQ(with({{"MPI_LOCALNRANKS", "5"}}), 5);
}

TEST_F(RanksOnHost, FollowSlurmsListOfTasks) {
  const auto tasks = [](const std::string& list, const std::string& node) {
    return with({{"SLURM_STEP_NUM_TASKS", "9"}, {"SLURM_STEP_TASKS_PER_NODE", list}, {"SLURM_NODEID", node}});
  };
  EXPECT_EQ(tasks("4(x2),3", "0"), 4);
  EXPECT_EQ(tasks("4(x2),3", "1"), 4);
  EXPECT_EQ(tasks("4(x2),3", "2"), 3);
  EXPECT_EQ(tasks("8", "0"), 8);
  EXPECT_EQ(with({{"SLURM_STEP_TASKS_PER_NODE", "4"}, {"SLURM_NODEID", "0"}}), 1) << "a job's script is not a task";
}

TEST_F(RanksOnHost, AreOneWhereTheWordCannotBeRead) {
  for (const char* text : {"", "0", "-2", "x", "2x", "99999999999999999999"}) {
    EXPECT_EQ(with({{"LOCAL_WORLD_SIZE", text}}), 1) << text;
  }
  for (const char* list : {"", "x", "4(x2", "4(x", "4(x0),3", ",", "4;3", "0"}) {
    const int ranks = with({{"SLURM_STEP_NUM_TASKS", "9"}, {"SLURM_STEP_TASKS_PER_NODE", list}, {"SLURM_NODEID", "5"}});
    EXPECT_EQ(ranks, 1) << list;
  }
}

struct ThreadsCase {
  const char* name;
  CoresInReach cores;
  int ranks;
  int want;
  friend std::ostream& operator<<(std::ostream& out, const ThreadsCase& c) { return out << c.name; }
};
class ThreadsFor : public ::testing::TestWithParam<ThreadsCase> {};

TEST_P(ThreadsFor, FillTheCoresOnce) { EXPECT_EQ(threads_for(GetParam().cores, GetParam().ranks), GetParam().want); }

INSTANTIATE_TEST_SUITE_P(Table, ThreadsFor,
                         ::testing::Values(ThreadsCase{"one_rank_takes_all", {8, 8, 0, 0}, 1, 8},
                                           ThreadsCase{"ranks_that_share_all_cores", {8, 8, 0, 0}, 2, 4},
                                           ThreadsCase{"bound_to_cores_of_its_own", {4, 16, 0, 0}, 4, 4},
                                           ThreadsCase{"bound_to_a_socket_of_several_ranks", {8, 16, 0, 0}, 4, 4},
                                           ThreadsCase{"more_ranks_than_cores", {2, 2, 0, 0}, 5, 1},
                                           ThreadsCase{"launcher_that_cannot_be_asked", {6, 0, 0, 0}, 3, 2},
                                           ThreadsCase{"slurm_gave_the_job_a_part_of_the_host", {8, 64, 8, 0}, 2, 4},
                                           ThreadsCase{"slurm_counts_hardware_threads", {8, 8, 16, 0}, 2, 4},
                                           ThreadsCase{"slurm_gave_each_task_its_own", {3, 64, 12, 3}, 4, 3},
                                           ThreadsCase{"a_quota_below_what_slurm_says", {2, 2, 16, 16}, 1, 2}),
                         [](const auto& test) { return test.param.name; });

using Cores = std::vector<int>;
struct BesideCase {
  const char* name;
  Cores own;
  std::vector<Cores> others;
  int want;
  friend std::ostream& operator<<(std::ostream& out, const BesideCase& c) { return out << c.name; }
};
class ThreadsBeside : public ::testing::TestWithParam<BesideCase> {};

// A machine without files: each hardware thread is a core, and there is no quota.
TEST_P(ThreadsBeside, DivideOnlySharedCores) {
  const TemporaryFolder machine;
  EXPECT_EQ(threads_beside(GetParam().own, GetParam().others, machine.path()), GetParam().want);
}

INSTANTIATE_TEST_SUITE_P(
    Table, ThreadsBeside,
    ::testing::Values(BesideCase{"alone", {0, 1, 2, 3}, {}, 4},
                      BesideCase{"all_share_all", {0, 1, 2}, {{0, 1, 2}, {0, 1, 2}}, 1},
                      BesideCase{"bound_by_a_wrapper", {0, 1}, {{2, 3}}, 2},
                      BesideCase{"two_to_each_socket", {0, 1, 2, 3}, {{0, 1, 2, 3}, {4, 5, 6, 7}, {4, 5, 6, 7}}, 2},
                      BesideCase{"unbound_beside_a_bound_one", {0, 1, 2, 3}, {{0, 1}}, 3},
                      BesideCase{"bound_beside_an_unbound_one", {0, 1}, {{0, 1, 2, 3}}, 1},
                      BesideCase{"more_ranks_than_cores", {0}, {{0}, {0}, {0}}, 1},
                      BesideCase{"no_mask", {}, {{0}}, 1}),
    [](const auto& test) { return test.param.name; });

TEST(ThreadsBesideOthers, CountHardwareThreadsOfACoreOnceAndShareAQuota) {
  const TemporaryFolder machine;
  const auto put = [&](const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(machine.path() + path).parent_path());
    std::ofstream(machine.path() + path) << text << '\n';
  };
  for (int core = 0; core < 8; ++core) {
    const int first = core - core % 2;
    put("/sys/devices/system/cpu/cpu" + std::to_string(core) + "/topology/thread_siblings_list",
        std::to_string(first) + "-" + std::to_string(first + 1));
  }
  const Cores all{0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(threads_beside(all, {}, machine.path()), 4);
  EXPECT_EQ(threads_beside(all, {all}, machine.path()), 2);
  put("/proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw");
  put("/proc/self/cgroup", "0::/");
  put("/sys/fs/cgroup/cpu.max", "200000 100000");
  EXPECT_EQ(threads_beside({0, 1, 2, 3}, {{4, 5, 6, 7}}, machine.path()), 1);
}

}  // namespace
}  // namespace lockstep
