#include <gtest/gtest.h>

#include <map>

#include "lockstep/launch/ranks/cpu_share.h"
#include "lockstep/launch/ranks/rank_environment.h"

namespace lockstep {
namespace {

std::map<std::string, std::string> as_map(const Variables& variables) { return {variables.begin(), variables.end()}; }

TEST(RankVariables, AreThoseOfTorchrun) {
  RankPlace place;
  place.rank = 5;
  place.local_rank = 1;
  place.world_size = 8;
  place.local_world_size = 4;
  place.node_rank = 1;
  place.nodes = 2;
  place.role = "trainer";
  place.master_addr = "10.0.0.1";
  place.master_port = 1234;
  place.generation = 4;
  place.restart_count = 2;
  place.max_restarts = 3;
  place.run_id = "job7";
  place.error_file = "/logs/error.json";
  place.store = "unix:/run/store";
  place.secret = "0123456789abcdef";
  place.collective_timeout_s = "60";
  place.job_mark = "mark";
  const std::map<std::string, std::string> want{{"RANK", "5"},
                                                {"LOCAL_RANK", "1"},
                                                {"WORLD_SIZE", "8"},
                                                {"LOCAL_WORLD_SIZE", "4"},
                                                {"GROUP_RANK", "1"},
                                                {"GROUP_WORLD_SIZE", "2"},
                                                {"ROLE_RANK", "5"},
                                                {"ROLE_WORLD_SIZE", "8"},
                                                {"ROLE_NAME", "trainer"},
                                                {"MASTER_ADDR", "10.0.0.1"},
                                                {"MASTER_PORT", "1234"},
                                                {"TORCHELASTIC_RESTART_COUNT", "2"},
                                                {"TORCHELASTIC_MAX_RESTARTS", "3"},
                                                {"TORCHELASTIC_RUN_ID", "job7"},
                                                {"TORCHELASTIC_USE_AGENT_STORE", "False"},
                                                {"TORCHELASTIC_ERROR_FILE", "/logs/error.json"},
                                                {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
                                                {"NCCL_ASYNC_ERROR_HANDLING", "1"},
                                                {"LOCKSTEP_GENERATION", "4"},
                                                {"LOCKSTEP_STORE", "unix:/run/store"},
                                                {"LOCKSTEP_SECRET", "0123456789abcdef"},
                                                {"LOCKSTEP_TIMEOUT_S", "60"},
                                                {"LOCKSTEP_JOB", "mark"}};
  EXPECT_EQ(as_map(rank_variables(place)), want);
}

TEST(RankVariables, LeaveOutWhatWasNotGiven) {
  const auto variables = as_map(rank_variables(RankPlace{}));
  EXPECT_EQ(variables.count("LOCKSTEP_SECRET"), 0U);
  EXPECT_EQ(variables.count("LOCKSTEP_TIMEOUT_S"), 0U);
}

TEST(MergedEnvironment, ReplacesByWholeName) {
  const std::vector<std::string> merged =
      merged_environment({"RANK=9", "RANKS=7", "HOME=/x", "EMPTY="}, {{"RANK", "1"}, {"NEW", "a=b"}});
  EXPECT_EQ(merged, (std::vector<std::string>{"RANKS=7", "HOME=/x", "EMPTY=", "RANK=1", "NEW=a=b"}));
}

TEST(LocalRankMacro, IsReplacedEverywhere) {
  EXPECT_EQ(with_local_rank({"a", "${local_rank}", "x${local_rank}y${local_rank}", "$local_rank"}, 3),
            (std::vector<std::string>{"a", "3", "x3y3", "$local_rank"}));
}

struct ShareCase {
  const char* name;
  CpuAffinity affinity;
  NodeCores node;
  int ranks;
  std::vector<std::vector<int>> want;
  friend std::ostream& operator<<(std::ostream& out, const ShareCase& c) { return out << c.name; }
};
class ShareCores : public ::testing::TestWithParam<ShareCase> {};

TEST_P(ShareCores, GivesBlocks) {
  EXPECT_EQ(share_cores(GetParam().affinity, GetParam().node, GetParam().ranks), GetParam().want);
}

const NodeCores kFour{{0, 1, 2, 3}, 4};
const NodeCores kSevenSiblings{{0, 4, 1, 5, 2, 6, 3}, 7};
const std::vector<std::vector<int>> kTwoFree{{}, {}};
INSTANTIATE_TEST_SUITE_P(
    Table, ShareCores,
    ::testing::Values(ShareCase{"none", CpuAffinity::None, kFour, 2, kTwoFree},
                      ShareCase{"split", CpuAffinity::Split, kFour, 2, {{0, 1}, {2, 3}}},
                      ShareCase{"auto_with_two_cores_each", CpuAffinity::Auto, kFour, 2, {{0, 1}, {2, 3}}},
                      ShareCase{"auto_with_one_core_each", CpuAffinity::Auto, {{0, 1}, 2}, 2, kTwoFree},
                      ShareCase{"auto_under_a_quota", CpuAffinity::Auto, {{0, 1, 2, 3}, 2}, 2, kTwoFree},
                      ShareCase{"auto_for_one_rank", CpuAffinity::Auto, kFour, 1, {{}}},
                      ShareCase{"split_one_core_each", CpuAffinity::Split, {{3, 8}, 2}, 2, {{3}, {8}}},
                      ShareCase{"more_ranks_than_cores", CpuAffinity::Split, {{0}, 1}, 2, kTwoFree},
                      ShareCase{"uneven", CpuAffinity::Split, kSevenSiblings, 3, {{0, 4, 1}, {5, 2}, {6, 3}}}),
    [](const auto& test) { return test.param.name; });

TEST(NodeCores, AreThoseOfThisProcess) {
  const NodeCores node = node_cores();
  EXPECT_FALSE(node.cores.empty());
  EXPECT_GE(node.available, 1);
  EXPECT_LE(node.available, static_cast<int>(node.cores.size()));
}

}  // namespace
}  // namespace lockstep
