// Tests mistakes in loops with lockstep::on_rank_change: what elastic_mistakes does.
#include <string>
#include <utility>

#include "tests/e2e/launch.h"

namespace lockstep {
namespace {

ProgramEnd end_of(const std::string& mistake, const Words& flags = {}) {
  Words all{"--nproc-per-node=2"};
  all.insert(all.end(), flags.begin(), flags.end());
  return run(all, {kBin + "/elastic_mistakes", mistake}, {{"OMP_NUM_THREADS", "1"}});
}

// A rank that continued would have another weight, or meet the others in another exchange.
TEST(ElasticMistakes, ARunDoesNotGoOnAfterAStepThatHasFailed) {
  for (const char* mistake : {"update-fails", "rank-1-fails"}) {
    const ProgramEnd end = end_of(mistake);
    EXPECT_TRUE(has(end.err, "make_step cannot be called after a call that has failed")) << end.out << end.err;
    EXPECT_FALSE(has(end.err, "disagree")) << end.err;
    EXPECT_EQ(end.code, mistake == std::string("update-fails") ? 1 : 0) << end.err;
  }
}

TEST(ElasticMistakes, AStepThatCatchesTheFailureOfAnExchangeIsRefused) {
  const ProgramEnd end = end_of("caught-loss");
  EXPECT_EQ(end.code, 1) << end.out;
  EXPECT_TRUE(has(end.err, "step 3 has caught the failure of an exchange")) << end.err;
}

// Its loop may depend on what only the others know. They wait for it until the timeout.
TEST(ElasticMistakesLong, AProcessThatJoinsAndEndsItsLoopBeforeTheOthersIsReported) {
  const ProgramEnd end = end_of("late-end", {"--max-restarts=1", "--timeout=10"});
  EXPECT_EQ(end.code, 1) << end.out;
  EXPECT_TRUE(has(end.err, "rank 1 ends its loop after step")) << end.err;
  EXPECT_TRUE(has(end.err, "and rank 0 makes another step")) << end.err;
}

// Seconds: each mistake ends a process that has loaded LibTorch.
TEST(ElasticMistakes, CallsWithinAStepOrTheFunctionForAGroupAreRefused) {
  const std::pair<const char*, const char*> cases[] = {{"step-in-step", "make_step cannot be called within make_step"},
                                                       {"end-in-step", "finish cannot be called within make_step"},
                                                       {"step-in-wrap", "make_step cannot be called within make_step"}};
  for (const auto& [mistake, refusal] : cases) {
    const ProgramEnd end = end_of(mistake);
    EXPECT_TRUE(has(end.err, refusal)) << end.out << end.err;
  }
}

}  // namespace
}  // namespace lockstep
