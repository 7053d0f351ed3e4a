#include "lockstep/base/processor/core_count.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <climits>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "lockstep/base/processor/cpu_mask.h"
#include "lockstep/base/processor/topology.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using Files = std::map<std::string, std::string>;

// A machine made of files.
class FakeMachine {
 public:
  explicit FakeMachine(const Files& files) {
    for (const auto& [path, text] : files) {
      std::filesystem::create_directories(std::filesystem::path(root() + path).parent_path());
      std::ofstream(root() + path) << text << '\n';
    }
  }
  std::string root() const { return folder_ / "root"; }

 private:
  TemporaryFolder folder_;
};

const std::string kV2Mount = "31 23 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw";
const std::string kV1Mount = "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct";

struct QuotaCase {
  const char* name;
  Files files;
  int want;
  friend std::ostream& operator<<(std::ostream& out, const QuotaCase& c) { return out << c.name; }
};
class Quota : public ::testing::TestWithParam<QuotaCase> {};

TEST_P(Quota, IsTheSmallestAbove) { EXPECT_EQ(quota_cores(FakeMachine(GetParam().files).root()), GetParam().want); }

INSTANTIATE_TEST_SUITE_P(
    Table, Quota,
    ::testing::Values(
        QuotaCase{"no_files", {}, INT_MAX},
        QuotaCase{"v2_of_a_container",
                  {{"/proc/self/mountinfo", kV2Mount},
                   {"/proc/self/cgroup", "0::/"},
                   {"/sys/fs/cgroup/cpu.max", "250000 100000"}},
                  3},
        QuotaCase{"v2_without_quota",
                  {{"/proc/self/mountinfo", kV2Mount},
                   {"/proc/self/cgroup", "0::/"},
                   {"/sys/fs/cgroup/cpu.max", "max 100000"}},
                  INT_MAX},
        QuotaCase{"v2_own_group_is_the_smallest",
                  {{"/proc/self/mountinfo", kV2Mount},
                   {"/proc/self/cgroup", "0::/a/b"},
                   {"/sys/fs/cgroup/a/cpu.max", "800000 100000"},
                   {"/sys/fs/cgroup/a/b/cpu.max", "200000 100000"}},
                  2},
        QuotaCase{"v2_a_group_above_is_the_smallest",
                  {{"/proc/self/mountinfo", kV2Mount},
                   {"/proc/self/cgroup", "0::/a/b"},
                   {"/sys/fs/cgroup/a/cpu.max", "100000 100000"},
                   {"/sys/fs/cgroup/a/b/cpu.max", "max 100000"}},
                  1},
        QuotaCase{"v1",
                  {{"/proc/self/mountinfo", kV1Mount},
                   {"/proc/self/cgroup", "5:memory:/x\n4:cpu,cpuacct:/a"},
                   {"/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1"},
                   {"/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000"},
                   {"/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "350000"},
                   {"/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000"}},
                  4},
        // The container sees only its own group, at the mount, under the host's name for it.
        QuotaCase{"v1_of_a_container_without_a_namespace_of_groups",
                  {{"/proc/self/mountinfo", "32 31 0:29 /docker/7 /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu"},
                   {"/proc/self/cgroup", "4:cpu:/docker/7/inner"},
                   {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000"},
                   {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000"},
                   {"/sys/fs/cgroup/cpu/inner/cpu.cfs_quota_us", "150000"},
                   {"/sys/fs/cgroup/cpu/inner/cpu.cfs_period_us", "50000"}},
                  2},
        QuotaCase{"both_versions_at_once",
                  {{"/proc/self/mountinfo", kV1Mount + "\n41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw"},
                   {"/proc/self/cgroup", "4:cpu,cpuacct:/\n0::/a"},
                   {"/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "600000"},
                   {"/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000"},
                   {"/sys/fs/cgroup/unified/a/cpu.max", "500000 100000"}},
                  5},
        QuotaCase{"group_outside_of_what_can_be_seen",
                  {{"/proc/self/mountinfo", kV2Mount},
                   {"/proc/self/cgroup", "0::/../other"},
                   {"/sys/fs/cgroup/cpu.max", "700000 100000"},
                   {"/sys/fs/other/cpu.max", "100000 100000"}},
                  7},
        QuotaCase{"folder_with_a_space",
                  {{"/proc/self/mountinfo", R"(31 23 0:28 / /sys/fs/my\040groups rw - cgroup2 cgroup2 rw)"},
                   {"/proc/self/cgroup", "0::/"},
                   {"/sys/fs/my groups/cpu.max", "200000 100000"}},
                  2},
        QuotaCase{"what_cannot_be_read_is_no_quota",
                  {{"/proc/self/mountinfo", kV2Mount + "\nx\n1 2 - 3\n" + kV1Mount},
                   {"/proc/self/cgroup", "x\n0\n0::/\n4:cpu,cpuacct:/"},
                   {"/sys/fs/cgroup/cpu.max", "many 0"},
                   {"/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "100000"}},
                  INT_MAX}),
    [](const auto& test) { return test.param.name; });

std::string siblings(int core) {
  return "/sys/devices/system/cpu/cpu" + std::to_string(core) + "/topology/thread_siblings_list";
}

TEST(PhysicalCores, CountSiblingsOnce) {
  const FakeMachine apart({{siblings(0), "0,2"}, {siblings(1), "1,3"}, {siblings(2), "0,2"}, {siblings(3), "1,3"}});
  EXPECT_EQ(physical_cores({0, 1, 2, 3}, apart.root()), 2);
  EXPECT_EQ(physical_cores({0, 2}, apart.root()), 1) << "bound to one core";
  EXPECT_EQ(physical_cores({2, 3}, apart.root()), 2) << "each without its sibling";
  const FakeMachine together({{siblings(0), "0-1"}, {siblings(1), "0-1"}, {siblings(2), "2-3"}, {siblings(3), "2-3"}});
  EXPECT_EQ(physical_cores({0, 1, 2, 3}, together.root()), 2);
  const FakeMachine eight_each({{siblings(0), "0-3,8-11"}, {siblings(8), "0-3,8-11"}});
  EXPECT_EQ(physical_cores({0, 1, 2, 3, 8, 9, 10, 11}, eight_each.root()), 1);
}

TEST(PhysicalCores, CountAllOfWhichTheMachineSaysNothing) {
  EXPECT_EQ(physical_cores({0, 1, 2}, FakeMachine({}).root()), 3);
  for (const char* text : {"", "x", "0-", "3-0", "0,x", "0;1", "99999999999999999999", "-1"}) {
    const FakeMachine odd({{siblings(0), text}, {siblings(1), text}});
    EXPECT_EQ(physical_cores({0, 1}, odd.root()), 2) << text;
  }
}

TEST(CoresSideBySide, ShareAPackageThenACore) {
  Files files;
  const auto place = [&](int core, const std::string& package, const std::string& id) {
    const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(core) + "/topology/";
    files[folder + "physical_package_id"] = package;
    files[folder + "core_id"] = id;
  };
  place(0, "0", "0"), place(1, "1", "0"), place(2, "0", "1"), place(3, "1", "1");
  place(4, "0", "0"), place(5, "1", "0"), place(6, "0", "1"), place(7, "1", "1");
  const FakeMachine machine(files);
  EXPECT_EQ(cores_side_by_side({0, 1, 2, 3, 4, 5, 6, 7}, machine.root()), (std::vector<int>{0, 4, 2, 6, 1, 5, 3, 7}));
  EXPECT_EQ(cores_side_by_side({3, 1}, FakeMachine({}).root()), (std::vector<int>{1, 3}));
}

TEST(ComputeCores, AreNotMoreThanTheProcessMayUse) {
  EXPECT_GE(compute_cores(), 1);
  EXPECT_LE(compute_cores(), available_cores());
}

// The kernel of a machine with 5000 cores, which allows this process the first, the 2000th and the last one.
int ask_a_large_machine(pid_t, std::size_t bytes, cpu_set_t* mask) {
  constexpr std::size_t kCores = 5000;
  if (bytes * 8 < kCores) {
    errno = EINVAL;
    return -1;
  }
  for (const std::size_t core : {std::size_t{0}, std::size_t{1999}, kCores - 1}) CPU_SET_S(core, bytes, mask);
  return 0;
}

int ask_without_an_answer(pid_t, std::size_t, cpu_set_t*) {
  errno = EINVAL;
  return -1;
}

TEST(CpuMask, HasRoomForEveryCoreOfALargeMachine) {
  const auto mask = CpuMask::of(0, ask_a_large_machine);
  ASSERT_TRUE(mask.has_value());
  EXPECT_EQ(mask->cores(), (std::vector<int>{0, 1999, 4999}));
  EXPECT_EQ(CpuMask({1023, 1024, 7000}).cores(), (std::vector<int>{1023, 1024, 7000}));
  EXPECT_TRUE(CpuMask(std::vector<int>{}).cores().empty());
  EXPECT_FALSE(CpuMask::of(0, ask_without_an_answer).has_value()) << "and the search ends";
}

TEST(CpuMask, BindsOnlyToCoresThatThereAre) {
  EXPECT_FALSE(CpuMask({1 << 19}).bind_this_thread());
  const auto own = CpuMask::of(0);
  ASSERT_TRUE(own.has_value());
  EXPECT_TRUE(own->bind_this_thread());
  EXPECT_EQ(affinity_cores(), own->cores());
}

}  // namespace
}  // namespace lockstep
