// Tests the examples that read text, end to end: real processes on the shipped data, and on public data if it exists.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "lockstep/base/files/atomic_file.h"
#include "tests/support/running_program.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_size.h"
#include "tests/support/write_lines.h"

namespace lockstep {
namespace {

using Words = std::vector<std::string>;

const std::string kExamplesBin = LOCKSTEP_BIN_DIR;
const std::string kExamplesShipped = std::string(LOCKSTEP_SOURCE_DIR) + "/data/";
const std::string kExamplesShared = LOCKSTEP_SHARED_DATA;

ProgramEnd run_ranks(int ranks, const std::string& example, const Words& flags) {
  Words words{kExamplesBin + "/lockstep", "run", "--nproc-per-node", std::to_string(ranks),
              kExamplesBin + "/" + example};
  words.insert(words.end(), flags.begin(), flags.end());
  return run_program(words, {}, std::chrono::seconds(600));
}

// All numbers that follow `label`.
std::vector<double> numbers_after(const std::string& text, const std::string& label) {
  std::vector<double> numbers;
  for (std::size_t at = text.find(label); at != std::string::npos; at = text.find(label, at + 1)) {
    numbers.push_back(std::stod(text.substr(at + label.size())));
  }
  return numbers;
}

double last_after(const std::string& text, const std::string& label) {
  const auto numbers = numbers_after(text, label);
  EXPECT_FALSE(numbers.empty()) << label << " in:\n" << text;
  return numbers.empty() ? -1 : numbers.back();
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

Words reviews(const Words& more) {
  Words words{"--train",     kExamplesShipped + "reviews.csv",  "--test", kExamplesShipped + "reviews-test.csv",
              "--tokenizer", kExamplesShipped + "reviews-vocab"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(DdpReviewsLong, LearnsDivisionsAndGoesOnFromWhatItSaved) {
  const TemporaryFolder folder;
  const std::string saved = folder / "saved";
  const ProgramEnd end = run_ranks(
      2, "ddp_reviews", reviews({"--train_samples", "2000", "--epochs", "4", "--batch_size", "8", "--save", saved}));
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_FALSE(contains(end.err, "hint:")) << end.err;
  EXPECT_TRUE(contains(end.out, "Epoch: 0, Step: 0, Loss: 1.")) << end.out;
  EXPECT_TRUE(contains(end.out, "Epoch: 3, Step: 490, Loss: ")) << "125 steps of 8 an epoch for each of two ranks\n"
                                                                << end.out;
  const double accuracy = last_after(end.out, "Accuracy on the test reviews: ");
  EXPECT_GE(accuracy, 60.0) << "the majority guess reaches 40.9\n" << end.out;
  EXPECT_TRUE(contains(end.out, "Model checkpoint saved in ")) << end.out;

  const auto config = nlohmann::json::parse(read_file(saved + "/config.json"));
  EXPECT_EQ(config["id2label"], nlohmann::json({{"0", "negative"}, {"1", "neutral"}, {"2", "positive"}}));
  // Loaded again and trained with a negligible rate, the model is as good as before, on one rank or two.
  const ProgramEnd again =
      run_ranks(1, "ddp_reviews",
                {"--model", saved, "--train", kExamplesShipped + "reviews.csv", "--train_samples", "8", "--test",
                 kExamplesShipped + "reviews-test.csv", "--epochs", "1", "--lr", "0"});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_DOUBLE_EQ(last_after(again.out, "Accuracy on the test reviews: "), accuracy) << again.out;
}

TEST(DdpReviews, RatesInStarsAsTheOriginalDoes) {
  const TemporaryFolder folder;
  const ProgramEnd end = run_ranks(2, "ddp_reviews",
                                   reviews({"--label", "stars", "--train_samples", "100", "--test_samples", "50",
                                            "--epochs", "2", "--batch_size", "8", "--save", folder / "saved"}));
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_TRUE(contains(end.out, "Epoch: 0, Step: 0, Loss: 1.6")) << "the logarithm of five classes is 1.609\n"
                                                                 << end.out;
  EXPECT_TRUE(contains(end.out, "Epoch: 1, Step: 10, Loss: ")) << end.out;
  EXPECT_EQ(numbers_after(end.out, "Accuracy on the test reviews: ").size(), 1U) << "rank 0 alone prints\n" << end.out;
  EXPECT_TRUE(contains(end.out, "Model checkpoint saved in ")) << end.out;
  EXPECT_EQ(nlohmann::json::parse(read_file(folder / "saved/config.json"))["id2label"].size(), 5U);
}

TEST(DdpReviews, LeavesOutRowsWithoutAText) {
  const TemporaryFolder folder;
  const std::string file =
      write_lines(folder / "rows.csv", "review,division\ngood,positive\n,neutral\nbad,negative\n \t,positive\n");
  const ProgramEnd end = run_ranks(2, "ddp_reviews",
                                   {"--train", file, "--test", file, "--tokenizer", kExamplesShipped + "reviews-vocab",
                                    "--epochs", "1", "--batch_size", "1", "--max_length", "8"});
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_TRUE(contains(end.err, "left out 2 of 4 rows: 0 for their label, 2 for an empty text")) << end.err;
  EXPECT_TRUE(contains(end.out, "Accuracy on the test reviews: ")) << end.out;
}

TEST(DdpReviewsLong, HintsAtALossThatDoesNotFall) {
  const ProgramEnd end =
      run_ranks(1, "ddp_reviews", reviews({"--test_samples", "10", "--max_length", "8", "--epochs", "1", "--lr", "0"}));
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_TRUE(contains(end.err, "hint: the loss has hardly moved")) << end.err;
  EXPECT_TRUE(contains(end.err, "--lr")) << end.err;
}

TEST(DdpReviews, NamesWhatIsWrong) {
  const ProgramEnd column = run_ranks(2, "ddp_reviews", reviews({"--label", "star"}));
  EXPECT_EQ(column.code, 1);
  EXPECT_TRUE(contains(column.err, "stars")) << column.err;
  const ProgramEnd file = run_ranks(1, "ddp_reviews", {"--train", kExamplesShipped + "nothing.csv"});
  EXPECT_EQ(file.code, 1);
  EXPECT_TRUE(contains(file.err, "nothing.csv")) << file.err;
  const ProgramEnd size = run_ranks(1, "ddp_reviews", reviews({"--model", "bert-huge"}));
  EXPECT_EQ(size.code, 1);
  EXPECT_TRUE(contains(size.err, "huge")) << size.err;
}

TEST(GPT2Lm, LossFallsOnTheShippedReviews) {
  const TemporaryFolder folder;
  const std::string steps = test_size("20", "60");
  const double low = test_size(5.3, 3.5);
  const ProgramEnd end =
      run_ranks(2, "gpt2_lm",
                {"--data", kExamplesShipped + "reviews.csv", "--tokenizer", kExamplesShipped + "bytes-vocab", "--lr",
                 "1e-3", "--train_step", steps, "--save", folder / "saved", "--save_interval", "10"});
  ASSERT_EQ(end.code, 0) << end.err;
  const auto losses = numbers_after(end.out, "Loss: ");
  ASSERT_EQ(losses.size(), test_size(3U, 7U)) << "steps 1, 10, 20…\n" << end.out;
  EXPECT_NEAR(losses.front(), 5.55, 0.3) << "257 tokens, nothing learned yet";
  EXPECT_LT(losses.back(), low) << end.out;
  EXPECT_TRUE(contains(end.out, "Step: " + steps + ", saved in ")) << end.out;
  const ProgramEnd again = run_ranks(
      1, "gpt2_lm", {"--model", folder / "saved", "--data", kExamplesShipped + "reviews.csv", "--train_step", "1"});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_LT(last_after(again.out, "Loss: "), low) << again.out;
}

// Seconds: two trainings of a small GPT-2 by two ranks.
TEST(FsdpGPT2, HoldsAShareAndLearnsWhatRanksWithSharedWeightsLearn) {
  const ProgramEnd shards = run_ranks(2, "fsdp_gpt2", {"--engine", "tcp", "--accumulation", "2"});
  ASSERT_EQ(shards.code, 0) << shards.err;
  const ProgramEnd shared = run_ranks(2, "fsdp_gpt2", {"--accumulation", "2"});
  ASSERT_EQ(shared.code, 0) << shared.err;
  const auto losses = numbers_after(shards.out, "Loss: ");
  ASSERT_EQ(losses.size(), 10U) << shards.out;
  EXPECT_LT(losses.back(), losses.front()) << shards.out;
  EXPECT_EQ(losses, numbers_after(shared.out, "Loss: "));
  const auto sums = numbers_after(shards.out, "the weights add up to ");
  ASSERT_EQ(sums.size(), 2U) << shards.out;
  EXPECT_EQ(sums[0], sums[1]);
  EXPECT_EQ(sums, numbers_after(shared.out, "the weights add up to "));
  for (const double most : numbers_after(shards.out, "held at most ")) {
    EXPECT_GT(most, 0);
    EXPECT_LT(most, last_after(shards.out, "which are ")) << shards.out;
  }
  for (const double most : numbers_after(shared.out, "held at most ")) EXPECT_EQ(most, 0);
}

TEST(GPT2LmLong, ReadsTheContextsOfSquad) {
  const std::string squad = kExamplesShared + "/text/squad/xquad.en.json";
  if (!std::filesystem::exists(squad)) GTEST_SKIP() << "SQuAD's sample is not at " << squad;
  const ProgramEnd end = run_ranks(2, "gpt2_lm",
                                   {"--data", squad, "--column", "context", "--tokenizer",
                                    kExamplesShared + "/tokenizers/gpt2", "--lr", "1e-3", "--train_step", "20"});
  ASSERT_EQ(end.code, 0) << end.err;
  const auto losses = numbers_after(end.out, "Loss: ");
  ASSERT_EQ(losses.size(), 3U) << end.out;
  EXPECT_NEAR(losses[0], 10.82, 0.3) << "50257 tokens, nothing learned yet";
  EXPECT_LT(losses[2], losses[0] - 1) << end.out;
}

TEST(OsloExamples, SaveAtTheEndOfATrainingThatIsShorterThanTheInterval) {
  const TemporaryFolder folder;
  const ProgramEnd end = run_ranks(2, "oslo_gpt2",
                                   {"--data", kExamplesShipped + "reviews.csv", "--tokenizer",
                                    kExamplesShipped + "bytes-vocab", "--train_step", "2", "--save", folder / "saved"});
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_TRUE(std::filesystem::exists(folder / "saved/model.safetensors"));
}

}  // namespace
}  // namespace lockstep
