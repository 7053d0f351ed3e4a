// Compares `lockstep estimate-memory` with the memory of real trainings.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <tuple>

#include "tests/support/running_program.h"

namespace lockstep {
namespace {

const std::string kEstimateBin = std::string(LOCKSTEP_BIN_DIR) + "/lockstep";

nlohmann::json estimate(std::vector<std::string> words) {
  words.insert(words.begin(), {kEstimateBin, "estimate-memory"});
  words.emplace_back("--json");
  const ProgramEnd end = run_program(words, {}, std::chrono::seconds(240));
  EXPECT_EQ(end.code, 0) << end.err;
  return nlohmann::json::parse(end.out);
}

TEST(EstimateMemory, ShowsOnATerminalWhatItIsDoing) {
  const std::string command = kEstimateBin + " estimate-memory bert-tiny --batch 1 --seq 8";
  const ProgramEnd end =
      run_program({"sh", "-c", "exec script -qec '" + command + "' /dev/null"}, {}, std::chrono::seconds(240));
  if (end.code == 127) GTEST_SKIP() << "no program script, which gives a program a terminal";
  EXPECT_EQ(end.code, 0) << end.out;
  const std::size_t run = end.out.find("dry run of bert-tiny, 2 samples");
  EXPECT_NE(run, std::string::npos) << end.out;
  EXPECT_LT(run, end.out.find("4.4 million parameters")) << end.out;
  const ProgramEnd piped = run_program({"sh", "-c", command}, {}, std::chrono::seconds(240));
  EXPECT_EQ(piped.err, "");
}

TEST(EstimateMemory, IsWhatATrainingTakesMore) {
  // The difference between two models excludes the program's own memory.
  const auto resident_mib = [](const std::string& model) {
    const ProgramEnd end = run_program({kEstimateBin, "bench", "step", "--model", model, "--ranks", "1", "--batch", "8",
                                        "--seq", "64", "--rounds", "1", "--steps", "3", "--json"},
                                       {}, std::chrono::seconds(240));
    EXPECT_EQ(end.code, 0) << end.err;
    return nlohmann::json::parse(end.out)[0].at("rss_mib_per_rank").get<double>();
  };
  const auto estimated_mib = [](const std::string& model) {
    const auto out = estimate({model, "--batch", "8", "--seq", "64"});
    return out.at("bytes_per_rank")[0].at("total").get<double>() / (1 << 20);
  };
  const double measured = resident_mib("bert-small") - resident_mib("bert-tiny");
  const double estimated = estimated_mib("bert-small") - estimated_mib("bert-tiny");
  EXPECT_NEAR(estimated / measured, 1, 0.25) << estimated << " MiB estimated, " << measured << " MiB measured";
}

// Two ranks on each host. Their own and shared memory are measured, beyond what was there before the model.
class MemoryOfHosts : public ::testing::TestWithParam<std::tuple<int, int, const char*>> {};

// Seconds: ranks of each host are started, and train until their memory no longer grows.
TEST_P(MemoryOfHosts, IsWithinATenthOfWhatTheirRanksHold) {
  const auto [hosts, stage, dtype] = GetParam();
  const std::string ranks = std::to_string(2 * hosts);
  const std::vector<std::string> model{"bert-small", "--batch", "1", "--seq", "16"};
  std::vector<std::string> words = model;
  for (const std::string& word :
       {std::string("--world-size"), ranks, std::string("--nproc-per-node"), std::string("2"), std::string("--stage"),
        std::to_string(stage), std::string("--dtypes"), std::string(dtype)}) {
    words.push_back(word);
  }
  const double estimated = estimate(words).at("bytes_per_host")[0].at("total");
  std::vector<std::string> run{
      kEstimateBin, "run", "--nproc-per-node", ranks, std::string(LOCKSTEP_BIN_DIR) + "/memory_rank", "--model"};
  run.insert(run.end(), model.begin(), model.end());
  for (const std::string& word : {std::string("--hosts"), std::to_string(hosts), std::string("--stage"),
                                  std::to_string(stage), std::string("--bucket-mb"), std::string("2")}) {
    run.push_back(word);
  }
  if (dtype == std::string("bf16")) run.emplace_back("--bf16");
  const ProgramEnd end = run_program(run, {}, std::chrono::seconds(240));
  ASSERT_EQ(end.code, 0) << end.err;
  const auto measured = nlohmann::json::parse(end.out).at("host_bytes");
  ASSERT_EQ(measured.size(), static_cast<std::size_t>(hosts));
  for (const double bytes : measured) EXPECT_NEAR(bytes / estimated, 1, 0.1) << bytes << " " << estimated;
}

std::string stage_name(const ::testing::TestParamInfo<std::tuple<int, int, const char*>>& test) {
  return "hosts" + std::to_string(std::get<0>(test.param)) + "stage" + std::to_string(std::get<1>(test.param)) +
         std::get<2>(test.param);
}

INSTANTIATE_TEST_SUITE_P(Stages, MemoryOfHosts,
                         ::testing::Values(std::tuple(1, 2, "float32"), std::tuple(2, 3, "bf16")), stage_name);
INSTANTIATE_TEST_SUITE_P(StagesLong, MemoryOfHosts,
                         ::testing::Combine(::testing::Values(1, 2), ::testing::Values(0, 1, 2, 3),
                                            ::testing::Values("float32", "bf16")),
                         stage_name);

}  // namespace
}  // namespace lockstep
