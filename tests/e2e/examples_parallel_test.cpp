// Tests the examples with DataParallel, end to end: real processes on the shipped data, and on public data if it
// exists.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "lockstep/base/files/atomic_file.h"
#include "tests/support/running_program.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using ParallelWords = std::vector<std::string>;

const std::string kParallelShipped = std::string(LOCKSTEP_SOURCE_DIR) + "/data/";
const std::string kParallelShared = LOCKSTEP_SHARED_DATA;

ProgramEnd run_parallel(const std::string& example, const ParallelWords& flags) {
  ParallelWords words{std::string(LOCKSTEP_BIN_DIR) + "/" + example};
  words.insert(words.end(), flags.begin(), flags.end());
  // As a user starts it, without the tests' settings.
  return run_program(words, {{"OMP_NUM_THREADS", {}}, {"OPENBLAS_NUM_THREADS", {}}}, std::chrono::seconds(600));
}

bool printed(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// All numbers that follow `label`.
std::vector<double> values_after(const std::string& text, const std::string& label) {
  std::vector<double> values;
  for (std::size_t at = text.find(label); at != std::string::npos; at = text.find(label, at + 1)) {
    values.push_back(std::stod(text.substr(at + label.size())));
  }
  return values;
}

TEST(DpSentimentLong, LearnsTheShippedReviewsAndLeavesOutTheOthers) {
  const ProgramEnd end = run_parallel(
      "dp_sentiment", {"--data", kParallelShipped + "reviews.csv", "--tokenizer", kParallelShipped + "reviews-vocab",
                       "--replicas", "2", "--lr", "5e-4", "--epochs", "2", "--batch_size", "16"});
  ASSERT_EQ(end.code, 0) << end.err;
  // Counted in the file: 1676 positive, 1507 negative, 817 neutral.
  EXPECT_TRUE(printed(end.out, "2865 reviews to train on, 318 to validate\n")) << end.out;
  const auto losses = values_after(end.out, "loss: ");
  ASSERT_EQ(losses.size(), 18U) << "2 epochs of 179 whole batches, a line every 20\n" << end.out;
  EXPECT_NEAR(losses.front(), 0.693, 0.1) << "two classes, nothing learned yet";
  const auto accuracies = values_after(end.out, " : acc: ");
  ASSERT_EQ(accuracies.size(), 2U) << end.out;
  EXPECT_GE(accuracies.back(), 0.70) << "the majority guess reaches 0.53\n" << end.out;
}

// Saves a small BERT with the labels of `reviews` and without dropout, so that runs with any number of replicas compute
// the same.
void save_bert_without_dropout(const std::string& folder, const std::string& reviews) {
  const ProgramEnd made = run_parallel("lockstep", {"run",
                                                    "--nproc-per-node",
                                                    "1",
                                                    std::string(LOCKSTEP_BIN_DIR) + "/ddp_reviews",
                                                    "--model",
                                                    "bert-tiny",
                                                    "--train",
                                                    reviews,
                                                    "--test",
                                                    reviews,
                                                    "--train_samples",
                                                    "8",
                                                    "--test_samples",
                                                    "8",
                                                    "--epochs",
                                                    "1",
                                                    "--tokenizer",
                                                    kParallelShipped + "reviews-vocab",
                                                    "--save",
                                                    folder});
  ASSERT_EQ(made.code, 0) << made.err;
  auto config = nlohmann::json::parse(std::ifstream(folder + "/config.json"));
  config["hidden_dropout_prob"] = 0.0;
  config["attention_probs_dropout_prob"] = 0.0;
  write_file_atomically(folder + "/config.json", config.dump());
}

// 7 samples are chunks of 3, 3 and 1: the mean of the replicas' means would count the last sample three times.
void expect_the_losses_of_one_replica(const std::string& example, ParallelWords flags) {
  flags.insert(flags.end(), {"--batch_size", "7", "--lr", "1e-3", "--replicas"});
  std::vector<std::vector<double>> losses;
  for (const char* replicas : {"1", "3"}) {
    ParallelWords words = flags;
    words.emplace_back(replicas);
    const ProgramEnd end = run_parallel(example, words);
    ASSERT_EQ(end.code, 0) << end.err;
    EXPECT_FALSE(printed(end.err, "their mean is not the loss of the batch")) << end.err;
    losses.push_back(values_after(end.out, "loss:"));
  }
  ASSERT_EQ(losses[0].size(), losses[1].size());
  ASSERT_GE(losses[0].size(), 4U);
  for (std::size_t i = 0; i < losses[0].size(); ++i) EXPECT_NEAR(losses[1][i], losses[0][i], 5e-4) << "line " << i;
}

TEST(ExamplesParallelLong, ABatchThatDoesNotDivideHasTheLossOfOneReplica) {
  const TemporaryFolder folder;
  std::ofstream few(folder / "few.csv");
  few << "review,division\n";
  for (int i = 0; i < 40; ++i) {
    few << (i % 3 == 0 ? "a good book that I read twice" : "bad") << " and " << i
        << (i % 3 == 0 ? ",positive" : ",negative") << "\n";
  }
  few.close();
  save_bert_without_dropout(folder / "two", folder / "few.csv");
  save_bert_without_dropout(folder / "three", kParallelShipped + "reviews.csv");
  if (HasFatalFailure()) return;
  expect_the_losses_of_one_replica("dp_sentiment",
                                   {"--model", folder / "two", "--data", folder / "few.csv", "--log_step", "1"});
  expect_the_losses_of_one_replica(
      "dp_nli", {"--model", folder / "three", "--train", kParallelShipped + "pairs.csv", "--steps", "40"});
}

// A tenth of four is less than one, so one review is kept.
TEST(DpSentiment, KeepsOneOfFewReviews) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "few.csv",
                        "review,division\ngood,positive\nbad,negative\nfine,positive\nso,negative\n");
  const ProgramEnd end =
      run_parallel("dp_sentiment", {"--data", folder / "few.csv", "--tokenizer", kParallelShipped + "reviews-vocab",
                                    "--replicas", "2", "--batch_size", "3"});
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_TRUE(printed(end.out, "3 reviews to train on, 1 to validate\n")) << end.out;
  EXPECT_EQ(values_after(end.out, " : acc: ").size(), 1U) << end.out;
}

TEST(DpSentimentLong, LearnsRealSentencesOfMovieReviews) {
  const std::string folder = kParallelShared + "/text/rt-polarity/rt-polarity.";
  if (!std::filesystem::exists(folder + "pos")) GTEST_SKIP() << "the movie reviews are not at " << folder << "pos";
  const TemporaryFolder made;
  std::ofstream rows(made / "reviews.tsv");
  rows << "sentence\tpolarity\n";
  for (const std::string polarity : {"pos", "neg"}) {
    std::ifstream lines(folder + polarity);
    for (std::string line; std::getline(lines, line);) {
      for (char& c : line) c = c == '"' || c == '\t' ? ' ' : c;
      rows << line << '\t' << polarity << '\n';
    }
  }
  rows.close();
  const ProgramEnd end = run_parallel(
      "dp_sentiment",
      {"--data", made / "reviews.tsv", "--text", "sentence", "--label", "polarity", "--positive", "pos", "--negative",
       "neg", "--tokenizer", kParallelShared + "/tokenizers/bert-base-uncased", "--lr", "5e-4", "--epochs", "1"});
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_TRUE(printed(end.out, "9596 reviews to train on, 1066 to validate\n")) << "5331 of each\n" << end.out;
  const auto accuracies = values_after(end.out, " : acc: ");
  ASSERT_EQ(accuracies.size(), 1U) << end.out;
  EXPECT_GE(accuracies.back(), 0.65) << "half of the sentences are positive\n" << end.out;
}

ParallelWords pairs(const ParallelWords& more) {
  ParallelWords words{"--train",     kParallelShipped + "pairs.csv",    "--test", kParallelShipped + "pairs-test.csv",
                      "--tokenizer", kParallelShipped + "reviews-vocab"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(DpNliLong, LearnsFromPairsOfSentences) {
  const ProgramEnd end = run_parallel(
      "dp_nli", pairs({"--replicas", "2", "--batch_size", "16", "--lr", "5e-4", "--epochs", "2", "--steps", "200"}));
  ASSERT_EQ(end.code, 0) << end.err;
  const auto losses = values_after(end.out, "loss:");
  ASSERT_EQ(losses.size(), 21U) << end.out;
  EXPECT_NEAR(losses.front(), 1.0986, 0.1) << "three classes, nothing learned yet";
  const double late = std::accumulate(losses.end() - 5, losses.end(), 0.0) / 5;
  EXPECT_LT(late, 1.07) << "learned something of the pairs it was shown\n" << end.out;
  EXPECT_EQ(values_after(end.out, "Accuracy on the test pairs: ").size(), 1U) << end.out;
}

TEST(DpNli, ReadsJsonLinesOfMultiNli) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "mnli.jsonl",
                        "{\"gold_label\":\"neutral\",\"sentence1\":\"A boat.\",\"sentence2\":\"A red boat.\"}\n"
                        "{\"gold_label\":\"-\",\"sentence1\":\"A boat.\",\"sentence2\":\"Nobody agrees.\"}\n");
  const ProgramEnd lines = run_parallel(
      "dp_nli", {"--train", folder / "mnli.jsonl", "--premise", "sentence1", "--hypothesis", "sentence2", "--label",
                 "gold_label", "--tokenizer", kParallelShipped + "reviews-vocab", "--replicas", "2"});
  EXPECT_EQ(lines.code, 0) << "one pair for two replicas: one of them is idle\n" << lines.err;
  EXPECT_TRUE(printed(lines.out, "step:0, loss:1.")) << lines.out;
}

TEST(DpNliLong, ReadsMultiNliInItsOwnFormats) {
  const std::string mnli = kParallelShared + "/text/textfooler/mnli_matched.txt";
  if (!std::filesystem::exists(mnli)) GTEST_SKIP() << "MultiNLI's sample is not at " << mnli;
  const ProgramEnd end = run_parallel("dp_nli", {"--train", mnli, "--columns", "label,premise,hypothesis",
                                                 "--tokenizer", kParallelShared + "/tokenizers/bert-base-uncased",
                                                 "--replicas", "3", "--batch_size", "31", "--steps", "10"});
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_TRUE(printed(end.out, "step:0, loss:1.")) << "the mean over the batch, whatever the replicas\n" << end.out;
  EXPECT_TRUE(printed(end.out, "step:10, loss:")) << end.out;
}

// Records in NSL-KDD's format, in which many connections in a short time are an attack.
std::string connection_records(int count) {
  std::ostringstream rows;
  for (int i = 0; i < count; ++i) {
    const bool is_attack = i % 3 == 0;
    rows << i % 5 << ",tcp," << (i % 2 == 0 ? "http" : "ftp") << ",SF," << 100 + i << "," << i % 7;
    for (int column = 0; column < 16; ++column) rows << ",0";
    rows << "," << (is_attack ? 200 + i % 50 : i % 50) << "," << i % 20;
    for (int column = 0; column < 17; ++column) rows << ",0.1" << column % 4;
    rows << (is_attack ? ",neptune," : ",normal,") << 15 + i % 6 << "\n";
  }
  return rows.str();
}

// Seconds: three trainings by processes.
TEST(KddMlp, TellsAttacksByItselfAndByDataParallelAndByDdp) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "train.txt", connection_records(1200));
  write_file_atomically(folder / "test.txt", connection_records(100));
  const ParallelWords flags{"--train", folder / "train.txt", "--test", folder / "test.txt", "--lr",
                            "1e-2",    "--epochs",           "5",      "--batch_size",      "32"};
  ParallelWords replicas = flags;
  replicas.insert(replicas.end(), {"--replicas", "3"});
  ParallelWords ranks{"run", "--nproc-per-node", "2", std::string(LOCKSTEP_BIN_DIR) + "/kdd_mlp"};
  ranks.insert(ranks.end(), flags.begin(), flags.end());
  for (const ProgramEnd& end :
       {run_parallel("kdd_mlp", flags), run_parallel("kdd_mlp", replicas), run_parallel("lockstep", ranks)}) {
    ASSERT_EQ(end.code, 0) << end.err;
    EXPECT_EQ(values_after(end.out, "Loss: ").size(), 5U) << end.out;
    const auto accuracies = values_after(end.out, "Accuracy on the 100 test records: ");
    ASSERT_EQ(accuracies.size(), 1U) << "rank 0 alone prints\n" << end.out;
    EXPECT_GE(accuracies.front(), 95.0) << end.out;
    EXPECT_TRUE(printed(end.out, "where the majority guess reaches 66.00 %")) << end.out;
  }
}

TEST(KddMlpLong, LearnsTheRealRecords) {
  const std::string folder = kParallelShared + "/nsl-kdd/";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "NSL-KDD is not at " << folder;
  const ProgramEnd end = run_parallel("kdd_mlp", {"--train", folder + "KDDTrain+_binary.csv.gz", "--test",
                                                  folder + "KDDTest+.txt.gz", "--replicas", "2", "--epochs", "2"});
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_TRUE(printed(end.out, "Epoch [2/2], Step [985/985], Loss: 0.0")) << "125973 records\n" << end.out;
  const auto accuracies = values_after(end.out, "Accuracy on the 22544 test records: ");
  ASSERT_EQ(accuracies.size(), 1U) << end.out;
  EXPECT_GE(accuracies.front(), 72.0) << "the test file has attacks that training has not seen\n" << end.out;
  EXPECT_TRUE(printed(end.out, "where the majority guess reaches 56.92 %")) << end.out;
}

struct ParallelMistake {
  const char* name;
  std::string example;
  ParallelWords flags;
  int code;
  std::string says;
  friend std::ostream& operator<<(std::ostream& out, const ParallelMistake& m) { return out << m.name; }
};
class ExamplesParallelRefuse : public ::testing::TestWithParam<ParallelMistake> {};

TEST_P(ExamplesParallelRefuse, WithAClearError) {
  const ProgramEnd end = run_parallel(GetParam().example, GetParam().flags);
  EXPECT_EQ(end.code, GetParam().code);
  EXPECT_TRUE(printed(end.err, GetParam().says)) << end.err;
}

INSTANTIATE_TEST_SUITE_P(
    Table, ExamplesParallelRefuse,
    ::testing::Values(
        ParallelMistake{"no_files", "kdd_mlp", {}, 2, "--train is required"},
        ParallelMistake{"no_such_file", "kdd_mlp", {"--train", "nowhere", "--test", "nowhere"}, 1, "nowhere"},
        ParallelMistake{"no_replica", "kdd_mlp", {"--train", "a", "--test", "b", "--replicas", "0"}, 2, "--replicas"},
        ParallelMistake{"label_that_no_review_has",
                        "dp_sentiment",
                        {"--data", kParallelShipped + "reviews.csv", "--tokenizer", kParallelShipped + "reviews-vocab",
                         "--positive", "foo"},
                        1,
                        "not of two kinds, \"foo\""},
        ParallelMistake{"misspelt", "dp_sentiment", {"--wings"}, 2, "--wings"},
        ParallelMistake{"label_that_no_row_has",
                        "dp_sentiment",
                        {"--data", kParallelShipped + "reviews.csv", "--tokenizer", kParallelShipped + "reviews-vocab",
                         "--positive", "good", "--negative", "bad"},
                        1,
                        "reviews.csv"},
        ParallelMistake{"batch_larger_than_the_file",
                        "dp_sentiment",
                        {"--data", kParallelShipped + "reviews.csv", "--tokenizer", kParallelShipped + "reviews-vocab",
                         "--batch_size", "4000"},
                        1,
                        "no whole batch of 4000 reviews"},
        ParallelMistake{"model_that_is_not_there", "dp_nli", pairs({"--model", "bert-huge"}), 1,
                        "there is no folder bert-huge"}),
    [](const auto& test) { return test.param.name; });

TEST(ExamplesParallel, HelpShowsDefaultsAndExamples) {
  for (const std::string example : {"kdd_mlp", "dp_sentiment", "dp_nli"}) {
    const ProgramEnd end = run_parallel(example, {"--help"});
    EXPECT_EQ(end.code, 0) << example;
    EXPECT_TRUE(printed(end.out, "Examples:\n  ")) << end.out;
    EXPECT_TRUE(printed(end.out, "--replicas INT")) << end.out;
    // CLI11 prints "=128", and "[128]" since 2.4.
    const bool has_defaults = printed(end.out, "=128") || printed(end.out, "[128]") || printed(end.out, "=bert-tiny") ||
                              printed(end.out, "[bert-tiny]");
    EXPECT_TRUE(has_defaults) << end.out;
  }
}

}  // namespace
}  // namespace lockstep
