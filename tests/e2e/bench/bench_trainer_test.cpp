// Tests that `lockstep bench trainer` measures what it claims. The peer runs if its packages are installed.
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tests/support/running_program.h"

namespace lockstep {
namespace {

const std::string kReviews = std::string(LOCKSTEP_SOURCE_DIR) + "/data/";

ProgramEnd bench_trainer(std::vector<std::string> flags) {
  std::vector<std::string> words{std::string(LOCKSTEP_BIN_DIR) + "/lockstep", "bench", "trainer"};
  words.insert(words.end(), {"--tokenizer", kReviews + "reviews-vocab", "--train-file", kReviews + "reviews.csv"});
  words.insert(words.end(), flags.begin(), flags.end());
  return run_program(words, {}, std::chrono::seconds(300));
}

// Seconds: the command is started and trains some rounds.
TEST(BenchTrainer, TimesTheCommandTheFirstStepAndTheUpdates) {
  const ProgramEnd end = bench_trainer({"--steps", "6", "--batch", "4", "--rounds", "2", "--json"});
  ASSERT_EQ(end.code, 0) << end.err;
  const auto out = nlohmann::json::parse(end.out);
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(out[0].at("system"), "lockstep");
  EXPECT_EQ(out[0].at("rounds_wall_s").size(), 2U);
  EXPECT_GT(out[0].at("first_step_s").get<double>(), 0);
  EXPECT_GT(out[0].at("wall_s").get<double>(), out[0].at("first_step_s").get<double>());
  EXPECT_GT(out[0].at("steps_per_s").get<double>(), 0);
}

TEST(BenchTrainerLong, JudgesTheSavedModelsOnAFileOfTheirOwn) {
  const ProgramEnd end = bench_trainer({"--steps", "6", "--batch", "4", "--rounds", "2", "--seed", "7", "--dtype",
                                        "bf16", "--test-file", kReviews + "reviews-test.csv", "--json"});
  ASSERT_EQ(end.code, 0) << end.err;
  const auto out = nlohmann::json::parse(end.out);
  const auto losses = out[0].at("rounds_loss").get<std::vector<double>>();
  const auto accuracies = out[0].at("rounds_accuracy").get<std::vector<double>>();
  ASSERT_EQ(losses.size(), 2U);
  EXPECT_NE(losses[0], losses[1]) << "each round has a seed of its own";
  ASSERT_EQ(accuracies.size(), 2U);
  for (const double accuracy : accuracies) EXPECT_TRUE(accuracy > 0 && accuracy <= 1) << accuracy;
}

// Seconds: two trainings by processes of their own, in rounds.
TEST(BenchTrainer, ComparesTrainerWithABareLoop) {
  const ProgramEnd end = bench_trainer({"--overhead", "--steps", "5", "--batch", "4", "--rounds", "2", "--json"});
  ASSERT_EQ(end.code, 0) << end.err;
  const auto out = nlohmann::json::parse(end.out);
  EXPECT_GT(out.at("trainer_ms").get<double>(), 0);
  EXPECT_GT(out.at("loop_ms").get<double>(), 0);
  EXPECT_EQ(out.at("trainer_rounds_ms").size(), 2U);
  EXPECT_NEAR(out.at("overhead_percent").get<double>(),
              100 * (out.at("trainer_ms").get<double>() / out.at("loop_ms").get<double>() - 1), 1e-9);
}

TEST(BenchTrainer, SaysWhatThePeerNeeds) {
  const ProgramEnd end = bench_trainer({"--peer", "huggingface", "--python", "/nonexistent/python"});
  EXPECT_EQ(end.code, 1);
  EXPECT_NE(end.err.find("transformers==4.44.2"), std::string::npos) << end.err;
}

TEST(BenchTrainer, FineTunesByHuggingFacesTrainerToo) {
  const char* python = std::getenv("LOCKSTEP_HUGGINGFACE_PYTHON");
  if (python == nullptr) {
    GTEST_SKIP() << "LOCKSTEP_HUGGINGFACE_PYTHON names no interpreter with torch, transformers and accelerate";
  }
  const ProgramEnd end = bench_trainer(
      {"--peer", "huggingface", "--python", python, "--steps", "6", "--batch", "4", "--rounds", "1", "--json"});
  ASSERT_EQ(end.code, 0) << end.err;
  const auto out = nlohmann::json::parse(end.out);
  ASSERT_EQ(out.size(), 2U);
  EXPECT_EQ(out[1].at("system"), "huggingface");
  EXPECT_GT(out[1].at("wall_s").get<double>(), 0);
}

}  // namespace
}  // namespace lockstep
