// Tests which rank `lockstep run` blames, and with which words, when LibTorch programs fail.
#include <gtest/gtest.h>

#include "tests/e2e/launch.h"
#include "tests/support/test_size.h"

namespace lockstep {
namespace {

ProgramEnd run_failing(const std::string& mode, const std::string& engine, const Words& flags = {}) {
  Words all{"--nproc-per-node=2"};
  all.insert(all.end(), flags.begin(), flags.end());
  return run(all, {kBin + "/failing_rank", mode, engine});
}

TEST(Attribution, ReportsTheMessageOfLibTorchAndNotItsStack) {
  const ProgramEnd end = run_failing("shapes", "shm");
  EXPECT_EQ(end.code, 1);
  const std::string report = end.err.substr(std::min(end.err.find("lockstep run: error:"), end.err.size()));
  EXPECT_TRUE(has(report, "rank 0 (local rank 0, ")) << end.err;
  EXPECT_TRUE(has(report, "mat1 and mat2 shapes cannot be multiplied (3x5 and 4x8)")) << report;
  EXPECT_FALSE(has(report, "| frame #")) << report;
}

TEST(Attribution, ReportsTheMessageFromALogFileToo) {
  const TemporaryFolder folder;
  const ProgramEnd end = run_failing("shapes", "shm", {"--redirects=3", "--log-dir", folder.path()});
  EXPECT_TRUE(has(end.err, "mat1 and mat2 shapes cannot be multiplied (3x5 and 4x8)")) << end.err;
}

using ModeAndEngine = std::tuple<const char*, const char*>;

std::string name_of(const ::testing::TestParamInfo<ModeAndEngine>& test) {
  return std::string(std::get<0>(test.param)) + "_" + std::get<1>(test.param);
}

class NamesTheCause : public ::testing::TestWithParam<ModeAndEngine> {};
using NamesTheCauseLong = NamesTheCause;

// If possible, rank 0 ends after rank 1, which saw it fail, so that the result does not depend on speed.
void expect_cause(const ModeAndEngine& param) {
  const auto [mode, engine] = param;
  for (int i = 0; i < test_size(1, 5); ++i) {
    const ProgramEnd end = run_failing(mode, engine);
    EXPECT_EQ(end.code, 1);
    EXPECT_TRUE(has(end.err, "error: rank 0 (local rank 0, ")) << end.err;
    EXPECT_TRUE(has(end.err, "this is the fault")) << end.err;
    EXPECT_FALSE(has(end.err, "rank 1 (local rank 1, ")) << end.err;
  }
}

TEST_P(NamesTheCause, InEveryRun) { expect_cause(GetParam()); }
TEST_P(NamesTheCauseLong, InEveryRun) { expect_cause(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Table, NamesTheCause,
                         ::testing::Values(ModeAndEngine("throw", "shm"), ModeAndEngine("abort", "tcp"),
                                           ModeAndEngine("leave", "shm"), ModeAndEngine("reworded", "tcp")),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Table, NamesTheCauseLong,
                         ::testing::Values(ModeAndEngine("catch", "shm"), ModeAndEngine("abort", "shm"),
                                           ModeAndEngine("together", "shm"), ModeAndEngine("leave", "tcp"),
                                           ModeAndEngine("reworded", "shm"), ModeAndEngine("phrases", "shm")),
                         name_of);

class NamesTheCauseByText : public ::testing::TestWithParam<ModeAndEngine> {};
using NamesTheCauseByTextLong = NamesTheCauseByText;

// A wrapper that clears the environment takes the error files away, so what the ranks write last decides.
void expect_cause_by_text(const ModeAndEngine& param) {
  const auto [mode, engine] = param;
  const ProgramEnd end =
      run({"--nproc-per-node=2"}, {"env", "-u", "TORCHELASTIC_ERROR_FILE", kBin + "/failing_rank", mode, engine});
  EXPECT_EQ(end.code, 1);
  EXPECT_TRUE(has(end.err, "error: rank 0 (local rank 0, ")) << end.err;
  EXPECT_FALSE(has(end.err, "rank 1 (local rank 1, ")) << end.err;
}

TEST_P(NamesTheCauseByText, WithoutErrorFiles) { expect_cause_by_text(GetParam()); }
TEST_P(NamesTheCauseByTextLong, WithoutErrorFiles) { expect_cause_by_text(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Table, NamesTheCauseByText,
                         ::testing::Values(ModeAndEngine("abort", "shm"), ModeAndEngine("leave", "shm")), name_of);
INSTANTIATE_TEST_SUITE_P(Table, NamesTheCauseByTextLong,
                         ::testing::Values(ModeAndEngine("abort", "gloo"), ModeAndEngine("leave", "gloo"),
                                           ModeAndEngine("catch", "shm"), ModeAndEngine("throw", "gloo")),
                         name_of);

// Seconds: the launcher waits before it ends a rank that has reported its failure.
TEST(Attribution, NamesARankThatFailedAndDoesNotEnd) {
  const ProgramEnd end = run_failing("hang", "shm");
  EXPECT_TRUE(has(end.err, "error: rank 0 (local rank 0, ")) << end.err;
  EXPECT_TRUE(has(end.err, "it had reported a failure, and was then ended by the launcher")) << end.err;
  EXPECT_TRUE(has(end.err, "rank 0 has seen the fault")) << end.err;
  EXPECT_TRUE(has(end.err, "since rank 0 had failed")) << end.err;
}

// The file has PyTorch's format, so torchrun reads it too.
TEST(Attribution, LeavesTheErrorFileOfEachRank) {
  const TemporaryFolder folder;
  run_failing("abort", "shm", {"--redirects=3", "--log-dir", folder.path()});
  const fs::path attempt = job_log(folder.path()) / "attempt_0";
  const std::string cause = content(attempt / "0/error.json"), victim = content(attempt / "1/error.json");
  EXPECT_TRUE(has(cause, R"("message":"this is the fault")")) << cause;
  EXPECT_TRUE(has(cause, R"("timestamp":")")) << cause;
  EXPECT_TRUE(has(victim, R"("cause":"aborted_by_peer")")) << victim;
  EXPECT_TRUE(has(victim, R"("blames":0)")) << victim;
}

class RanksInARank : public ::testing::TestWithParam<const char*> {};

// Its ranks have numbers of their own, which mean other ranks in the job.
TEST_P(RanksInARank, FailAsTheRankThatStartedThem) {
  const TemporaryFolder folder;
  const ProgramEnd end = run_failing(GetParam(), "shm", {"--redirects=3", "--log-dir", folder.path()});
  EXPECT_TRUE(has(end.err, "error: rank 0 (local rank 0, ")) << end.err;
  const std::string record = content(job_log(folder.path()) / "attempt_0/0/error.json");
  EXPECT_TRUE(has(record, "this is the fault")) << record;
  EXPECT_TRUE(has(record, R"("cause":"own")")) << record;
  EXPECT_TRUE(has(record, R"("rank":0)")) << record;
  EXPECT_FALSE(has(record, "blames")) << record;
}

INSTANTIATE_TEST_SUITE_P(Table, RanksInARank, ::testing::Values("threads", "processes"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace lockstep
