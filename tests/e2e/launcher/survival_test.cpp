// Tests lockstep::on_rank_change under `lockstep run`: ranks that kill themselves at chosen places of a step.
#include <string>
#include <utility>

#include "tests/e2e/launch.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_size.h"

namespace lockstep {
namespace {

// The last of them are left when a process has taken a lost rank's place, because the steps without it are slow.
const std::string kManySteps = "1000";

// @param how  of elastic_rank
Words elastic_rank(const std::string& steps, const std::string& how = "") {
  if (how.empty()) return {kBin + "/elastic_rank", steps};
  return {kBin + "/elastic_rank", how, steps};
}

ProgramEnd train(const Words& flags, const Words& deaths, const std::string& how = "") {
  Words program = elastic_rank("12", how);
  program.insert(program.end(), deaths.begin(), deaths.end());
  return run(flags, program, {{"OMP_NUM_THREADS", "1"}});
}

// "bits 0123456789abcdef"
std::string bits_in(const ProgramEnd& end) { return end.out.substr(0, 21); }

const std::string& undisturbed() {
  static const std::string bits = bits_in(train({"--nproc-per-node=2"}, {}));
  return bits;
}

struct DeathsCase {
  const char* name;
  int ranks;
  Words deaths;
  std::string seen;  // of the ranks
  friend std::ostream& operator<<(std::ostream& out, const DeathsCase& c) { return out << c.name; }
};
class ElasticLoop : public ::testing::TestWithParam<DeathsCase> {};
using ElasticLoopLong = ElasticLoop;

void expect_bits_of_the_undisturbed_loop(const DeathsCase& c, const std::string& how) {
  const ProgramEnd end = train({"--nproc-per-node=" + std::to_string(c.ranks)}, c.deaths, how);
  ASSERT_EQ(end.code, 0) << end.out << end.err;
  EXPECT_EQ(bits_in(end), undisturbed()) << end.out << end.err;
  EXPECT_TRUE(has(end.out, c.seen)) << end.out;
}

TEST_P(ElasticLoop, TheOthersFinishWithTheBitsOfTheUndisturbedLoop) {
  expect_bits_of_the_undisturbed_loop(GetParam(), "");
}
TEST_P(ElasticLoop, ALoopWhoseUpdatesAreFusedToo) { expect_bits_of_the_undisturbed_loop(GetParam(), "fuse"); }
TEST_P(ElasticLoop, ALoopOfAnAcceleratorToo) { expect_bits_of_the_undisturbed_loop(GetParam(), "accelerate"); }
// elastic_loop, as long as it is there.
TEST_P(ElasticLoop, ALoopThatTheLibraryCallsToo) { expect_bits_of_the_undisturbed_loop(GetParam(), "loop"); }

// Other places of a step are Long's: the parts of a step in which a rank may be lost are those of
// tests/parallel/fused/survival, and the agreement on the next group is simulated.
INSTANTIATE_TEST_SUITE_P(Places, ElasticLoop,
                         ::testing::Values(DeathsCase{
                             "two_at_once", 4, {"0", "5", "gradients", "2", "5", "shard"}, "ranks 2 to 4"}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(ElasticLoopLong, TheOthersFinishWithTheBitsOfTheUndisturbedLoop) {
  expect_bits_of_the_undisturbed_loop(GetParam(), "");
}
TEST_P(ElasticLoopLong, ALoopWhoseUpdatesAreFusedToo) { expect_bits_of_the_undisturbed_loop(GetParam(), "fuse"); }
TEST_P(ElasticLoopLong, ALoopOfAnAcceleratorToo) { expect_bits_of_the_undisturbed_loop(GetParam(), "accelerate"); }

INSTANTIATE_TEST_SUITE_P(
    Places, ElasticLoopLong,
    ::testing::Values(DeathsCase{"nobody", 4, {}, "ranks 4 to 4"},
                      DeathsCase{"before_the_first_step", 2, {"1", "0", "start"}, "ranks 1 to 2"},
                      DeathsCase{"at_the_start_of_a_step", 2, {"0", "5", "start"}, "ranks 1 to 2"},
                      DeathsCase{"in_a_shard", 2, {"1", "5", "shard"}, "ranks 1 to 2"},
                      DeathsCase{"with_all_gradients", 2, {"0", "5", "gradients"}, "ranks 1 to 2"},
                      DeathsCase{"after_the_update", 2, {"1", "5", "update"}, "ranks 1 to 2"},
                      DeathsCase{"in_the_last_step", 2, {"0", "11", "update"}, "ranks 1 to 2"},
                      DeathsCase{"two_at_once", 4, {"0", "5", "gradients", "2", "5", "shard"}, "ranks 2 to 4"},
                      DeathsCase{"one_after_the_other",
                                 4,
                                 {"0", "4", "shard", "1", "5", "gradients", "3", "6", "update"},
                                 "ranks 1 to 4"}),
    [](const auto& test) { return std::string(test.param.name); });

// Seconds: two jobs of three ranks, which pause in each step.
TEST(ElasticLoopJobs, ARankThatHasHalfUpdatedIsSurvived) {
  expect_bits_of_the_undisturbed_loop({"", 3, {"1", "5", "writing"}, "ranks 2 to 3"}, "fuse");
}

TEST(ElasticLoopJobsLong, RanksThatHaveHalfUpdatedAreSurvivedWhoeverTheyAre) {
  for (const char* rank : {"0", "1", "2"}) {
    expect_bits_of_the_undisturbed_loop({"", 3, {rank, "5", "writing"}, "ranks 2 to 3"}, "fuse");
  }
  expect_bits_of_the_undisturbed_loop({"", 4, {"1", "4", "writing", "2", "5", "writing"}, "ranks 2 to 4"}, "fuse");
  expect_bits_of_the_undisturbed_loop({"", 4, {"1", "4", "writing", "2", "4", "writing"}, "ranks 2 to 4"}, "fuse");
  expect_bits_of_the_undisturbed_loop({"", 2, {"1", "11", "writing"}, "ranks 1 to 2"}, "fuse");
}

// Seconds: two jobs, and a process that loads LibTorch to replace a rank.
TEST(ElasticLoopJobs, ALostRankIsReplacedAndTheLauncherReportsBoth) {
  const ProgramEnd calm = run({"--nproc-per-node=1"}, elastic_rank(kManySteps), {{"OMP_NUM_THREADS", "1"}});
  const Words all{"fuse", "", "accelerate", "loop"};
  for (const std::string& how : Words(all.begin(), test_size(all.begin() + 1, all.end()))) {
    Words program = elastic_rank(kManySteps, how);
    program.insert(program.end(), {"1", "5", how == "fuse" ? "writing" : "shard", "2", "6", "slow"});
    const ProgramEnd end = run({"--nproc-per-node=2", "--max-restarts=1"}, program, {{"OMP_NUM_THREADS", "1"}});
    ASSERT_EQ(end.code, 0) << end.out << end.err;
    EXPECT_TRUE(has(end.err, "killed by SIGKILL (Killed). The others continue with 1 rank on this host")) << end.err;
    EXPECT_TRUE(has(end.err, "has joined in the place of rank 1: 2 ranks on this host")) << end.err;
    EXPECT_TRUE(has(end.out, "ranks 1 to 2")) << end.out;
    EXPECT_EQ(bits_in(end), bits_in(calm)) << "a new process has another state than the others";
  }
}

TEST(ElasticLoopJobs, IfAllRanksDieTheyAreStartedAgainAsBefore) {
  const ProgramEnd end = train({"--nproc-per-node=2"}, {"0", "5", "shard", "1", "5", "shard"});
  EXPECT_EQ(end.code, 1);
  EXPECT_TRUE(has(end.err, "failed first: killed by SIGKILL")) << end.err;
}

// Rank 0 alone reads the checkpoint; with it, it is lost two steps later.
TEST(ElasticLoopJobs, ALoopContinuesFromACheckpointThatOneRankReads) {
  const TemporaryFolder folder;
  const Words all{"fuse", "", "loop"};
  for (const std::string& how : Words(all.begin(), test_size(all.begin() + 1, all.end()))) {
    const std::string file = folder / ("checkpoint" + how);
    const Changes with{{"OMP_NUM_THREADS", "1"}, {"CHECKPOINT", file}};
    const ProgramEnd first = run({"--nproc-per-node=3"}, elastic_rank("6", how), with);
    ASSERT_EQ(first.code, 0) << first.err;
    Words program = elastic_rank("12", how);
    program.insert(program.end(), {"0", "8", "shard"});
    const ProgramEnd second = run({"--nproc-per-node=2"}, program, with);
    ASSERT_EQ(second.code, 0) << second.err;
    EXPECT_EQ(bits_in(second), undisturbed()) << how;
    EXPECT_TRUE(has(second.out, "ranks 1 to 2")) << second.out;
  }
}

// The others do not wait for a process that asks for a group of its own.
TEST(ElasticLoopJobsLong, AProcessThatJoinsARunningJobDoesNotMakeAGroup) {
  Words program = elastic_rank(kManySteps, "early");
  program.insert(program.end(), {"1", "5", "shard", "2", "6", "slow"});
  const ProgramEnd end = run({"--nproc-per-node=2", "--max-restarts=1"}, program, {{"OMP_NUM_THREADS", "1"}});
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_TRUE(has(end.out, "ranks 1 to 2")) << end.out;
  EXPECT_TRUE(has(end.err, "init_process_group in a process that takes a lost rank's place")) << end.err;
}

// All of these would give other bits, and only if a rank is lost.
TEST(ElasticLoopJobs, WhatTheStateDoesNotHaveIsNoticed) {
  const std::pair<const char*, const char*> cases[] = {
      {"no-buffers", "changes norm.running_mean, which ElasticState::tensors does not have"},
      {"no-optimizer", "ElasticState::optimizers does not have this optimizer"},
      {"other-rates", "the ranks' optimizers have different options after step 5: rank 0 has lr"}};
  for (const auto& [mistake, message] : cases) {
    const ProgramEnd end = train({"--nproc-per-node=2"}, {}, mistake);
    EXPECT_EQ(end.code, 1) << mistake;
    EXPECT_TRUE(has(end.err, message)) << end.out << end.err;
  }
}

// At once: they would read the same in each restart.
TEST(ElasticLoopJobs, RanksThatReadOtherDataAreRefused) {
  const ProgramEnd end = train({"--nproc-per-node=3", "--max-restarts=2"}, {}, "other-data");
  EXPECT_EQ(end.code, 1) << end.out << end.err;
  EXPECT_FALSE(has(end.err, "started again")) << end.err;
  EXPECT_FALSE(has(end.err, "The others continue")) << end.err;
  EXPECT_TRUE(has(end.err,
                  "the ranks have not read the same data; ElasticState::data[0]: rank 1 has the samples of "
                  "rank 0 in another order; the first that differs is sample 0, counted from 0"))
      << end.err;
}

// Seconds: two jobs, in which a process joins and a process is refused.
TEST(ElasticLoopJobs, AProcessThatHasReadOtherDataTakesNoLostRanksPlace) {
  const TemporaryFolder folder;
  for (const char* how : {"data", "joiner-data"}) {
    Words program = elastic_rank(kManySteps, how);
    program.insert(program.end(), {"1", "5", "shard", "2", "6", "slow"});
    const ProgramEnd end = run({"--nproc-per-node=2", "--max-restarts=3"}, program,
                               {{"OMP_NUM_THREADS", "1"}, {"FAILED_TO_JOIN", folder / how}});
    EXPECT_EQ(end.code, 0) << end.err;
    const bool is_refused = has(end.err, "cannot take a lost rank's place, because it has not read ");
    EXPECT_EQ(is_refused, how == std::string("joiner-data")) << end.err;
    EXPECT_TRUE(has(end.out, "bits")) << end.out;
  }
}

// The others would lose an update, or be taken for lost. The model's running averages are exchanged in numbers, too.
TEST(ElasticLoopJobs, AStepThatOneRankLeavesOutIsAnErrorOnAllRanks) {
  for (const char* mistake : {"skips-0", "fuse-skips-1"}) {
    const ProgramEnd end = train({"--nproc-per-node=3", "--timeout=20"}, {}, mistake);
    EXPECT_EQ(end.code, 1) << mistake << end.out << end.err;
    EXPECT_TRUE(has(end.err, "the ranks disagree: ")) << end.err;
    EXPECT_TRUE(has(end.err, "all_gather")) << end.err;
    EXPECT_TRUE(has(end.err, "a rank that is there already has left out what the others do in that step")) << end.err;
    EXPECT_FALSE(has(end.out, "bits")) << end.out;
  }
}

TEST(ElasticLoopJobsLong, AStepThatAnyRankLeavesOutIsAnErrorOnAllRanks) {
  for (const char* mistake : {"skips-1", "fuse-skips-0"}) {
    const ProgramEnd end = train({"--nproc-per-node=2", "--timeout=20", "--max-restarts=1"}, {}, mistake);
    EXPECT_EQ(end.code, 1) << mistake << end.out << end.err;
    EXPECT_TRUE(has(end.err, "a rank that is there already has left out what the others do in that step")) << end.err;
  }
}

TEST(ElasticLoopJobsLong, AStepThatExchangesAfterItsUpdateIsRefusedIfARankIsLost) {
  for (const char* mistake : {"late-exchange", "fuse-late-exchange"}) {
    const ProgramEnd end = train({"--nproc-per-node=2"}, {}, mistake);
    EXPECT_TRUE(has(end.err, "a rank was lost after step 5 had updated the weights, and before its end")) << end.err;
    EXPECT_FALSE(has(end.out, "bits")) << end.out;
  }
}

// The rank dies before the update is decided, so nobody makes it.
TEST(ElasticLoopJobs, AStepThatCatchesTheFailureOfAFusedUpdateIsRefused) {
  const ProgramEnd end = train({"--nproc-per-node=2"}, {"1", "5", "gradients"}, "fuse-caught-loss");
  EXPECT_TRUE(has(end.err, "step 5 has caught the failure of an exchange")) << end.err;
  EXPECT_FALSE(has(end.out, "bits")) << end.out;
}

TEST(ElasticLoopJobs, ALoopThatIsNotFinishedIsReported) {
  const ProgramEnd end = train({"--nproc-per-node=2"}, {}, "unfinished");
  EXPECT_TRUE(has(end.err, "ends after step 12 without finish()")) << end.err;
}

TEST(ElasticLoopJobsLong, LoopsOfUnequalLengthFail) {
  const ProgramEnd end = train({"--nproc-per-node=2"}, {}, "uneven");
  EXPECT_EQ(end.code, 1);
  EXPECT_TRUE(has(end.err, "barrier")) << end.err;
}

// In a second loop the others would count as gone: they have left the first one.
TEST(ElasticLoopJobs, ASecondLoopIsRefused) {
  const ProgramEnd end =
      run({"--nproc-per-node=2"}, {kBin + "/elastic_rank", "twice", "12"}, {{"OMP_NUM_THREADS", "1"}});
  EXPECT_EQ(end.code, 1);
  EXPECT_TRUE(has(end.err, "a second on_rank_change")) << end.err;
}

}  // namespace
}  // namespace lockstep
