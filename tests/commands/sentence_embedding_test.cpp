// Tests `lockstep train --task sentence-embedding`, and what `evaluate` and `predict` make of its folder.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "lockstep/base/files/atomic_file.h"
#include "tests/commands/run_command.h"
#include "tests/e2e/train/eval_results.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_size.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;

// The entailed pairs of a shipped file, as anchors and positives.
std::string entailed_pairs(const std::string& file, std::size_t most) {
  std::istringstream lines(read_file(kShipped + file));
  const std::string ending = ",entailment";
  std::string pairs = "anchor,positive\n";
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line) && count < most;) {
    if (line.size() < ending.size() || line.compare(line.size() - ending.size(), ending.size(), ending) != 0) continue;
    pairs += line.substr(0, line.size() - ending.size()) + "\n";
    ++count;
  }
  return pairs;
}

CommandWords embedding_training(const TemporaryFolder& folder, int ranks, const std::string& out) {
  return {"train",
          "--task",
          "sentence-embedding",
          "--model",
          folder / "start",
          "--train-file",
          folder / "pairs.csv",
          "--validation-file",
          folder / "pairs-test.csv",
          "--max-length",
          "32",
          "--per-device-train-batch-size",
          std::to_string(24 / ranks),
          "--learning-rate",
          "1e-3",
          "--num-train-epochs",
          "2",
          "--save-strategy",
          "no",
          "--output-dir",
          out};
}

// One rank in this process, several as the processes of a job.
ProgramEnd on_ranks(int ranks, const CommandWords& words) {
  if (ranks == 1) return run_command(words);
  const std::string lockstep = LOCKSTEP_BIN_DIR "/lockstep";
  CommandWords job{lockstep, "run", "--nproc-per-node", std::to_string(ranks), lockstep};
  job.insert(job.end(), words.begin(), words.end());
  return run_program(job, {}, std::chrono::seconds(300));
}

// A model without dropout, whose trainings differ by rounding alone.
void make_start(const TemporaryFolder& folder) {
  const ProgramEnd made =
      run_command({"train", "--task", "sentence-embedding", "--model", "bert-tiny", "--tokenizer",
                   kShipped + "reviews-vocab", "--train-file", folder / "pairs.csv", "--max-steps", "1",
                   "--learning-rate", "0", "--save-strategy", "no", "--output-dir", folder / "start"});
  ASSERT_EQ(made.code, 0) << made.out << made.err;
  auto config = Json::parse(read_file(folder / "start/config.json"));
  config["hidden_dropout_prob"] = 0;
  config["attention_probs_dropout_prob"] = 0;
  write_file_atomically(folder / "start/config.json", config.dump());
}

// Seconds, because it starts the processes of several ranks.
TEST(SentenceEmbedding, IsTrainedAlikeOnAnyNumberOfRanks) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "pairs.csv", entailed_pairs("pairs.csv", 100));
  write_file_atomically(folder / "pairs-test.csv", entailed_pairs("pairs-test.csv", 60));
  make_start(folder);
  double loss = 0, found = 0;
  for (int ranks = 1; ranks <= test_size(2, 3); ++ranks) {
    const std::string out = folder / ("out-" + std::to_string(ranks));
    const ProgramEnd end = on_ranks(ranks, embedding_training(folder, ranks, out));
    ASSERT_EQ(end.code, 0) << end.out << end.err;
    if (ranks == 1) {
      loss = eval_result(out, "eval_loss");
      found = eval_result(out, "eval_cosine_mrr@10");
      EXPECT_GT(eval_result(out, "eval_cosine_accuracy@10"), eval_result(out, "eval_cosine_accuracy@1"));
    }
    EXPECT_NEAR(eval_result(out, "eval_loss"), loss, 2e-3 * loss) << ranks;
    EXPECT_NEAR(eval_result(out, "eval_cosine_mrr@10"), found, 0.02) << ranks;
  }
  // What evaluate computes of the saved folder is what the training said, on any number of ranks.
  const ProgramEnd evaluated =
      on_ranks(2, {"evaluate", "--save", "--task", "sentence-embedding", "--model", folder / "out-1",
                   "--validation-file", folder / "pairs-test.csv", "--output-dir", folder / "evaluated"});
  ASSERT_EQ(evaluated.code, 0) << evaluated.out << evaluated.err;
  EXPECT_NEAR(eval_result(folder / "evaluated", "eval_loss"), loss, 1e-5 * loss);

  const ProgramEnd predicted = run_command({"predict", "--json", "--model", folder / "out-1", "--file",
                                            folder / "pairs-test.csv", "--text-column", "positive"});
  ASSERT_EQ(predicted.code, 0) << predicted.err;
  std::istringstream answers(predicted.out);
  std::size_t count = 0;
  for (std::string line; std::getline(answers, line); ++count) {
    EXPECT_EQ(Json::parse(line).at("embedding").size(), 128U);
  }
  EXPECT_EQ(count, 60U);
  EXPECT_TRUE(std::filesystem::exists(folder / "out-1/modules.json"));
  EXPECT_EQ(Json::parse(read_file(folder / "out-1/sentence_bert_config.json")).at("max_seq_length"), 32);
}

// Its folder has no pooler, and neither has the network that is made from the folder.
TEST(SentenceEmbedding, BegunWithRandomWeightsIsResumedWithItsOwnFolder) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "pairs.csv", entailed_pairs("pairs.csv", 60));
  const auto train = [&](const std::string& model, const std::string& steps, const CommandWords& more) {
    CommandWords words{
        "train",       "--task", "sentence-embedding", "--model", model,          "--train-file", folder / "pairs.csv",
        "--max-steps", steps,    "--save-steps",       "1",       "--output-dir", folder / "out"};
    words.insert(words.end(), more.begin(), more.end());
    const ProgramEnd end = run_command(words);
    EXPECT_EQ(end.code, 0) << end.out << end.err;
  };
  train("bert-tiny", "1", {"--tokenizer", kShipped + "reviews-vocab"});
  train(folder / "out", "2", {"--resume-from-checkpoint", "true"});
  EXPECT_EQ(read_file(folder / "out/model.safetensors").find("pooler"), std::string::npos);
}

// As a training that nobody stopped. The folder of a checkpoint is a model's, too. Seconds, because it trains three
// times.
TEST(SentenceEmbedding, IsResumedFromACheckpoint) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "pairs.csv", entailed_pairs("pairs.csv", 60));
  write_file_atomically(folder / "pairs-test.csv", entailed_pairs("pairs-test.csv", 60));
  make_start(folder);
  const auto train = [&](const std::string& out, const std::vector<std::string>& flags) {
    CommandWords words = embedding_training(folder, 1, out);
    words.insert(words.end(), {"--save-strategy", "steps", "--save-steps", "2"});
    words.insert(words.end(), flags.begin(), flags.end());
    const ProgramEnd end = run_command(words);
    ASSERT_EQ(end.code, 0) << end.out << end.err;
  };
  train(folder / "whole", {});
  ASSERT_TRUE(std::filesystem::exists(folder / "whole/checkpoint-2/1_Pooling/config.json"));
  train(folder / "parts", {"--resume-from-checkpoint", folder / "whole/checkpoint-2"});
  // To rounding: each weight is used once for each text, and a process adds up its first gradients in another order.
  const double loss = eval_result(folder / "whole", "eval_loss");
  EXPECT_NEAR(eval_result(folder / "parts", "eval_loss"), loss, 1e-5 * loss);
  const ProgramEnd predicted = run_command({"predict", "--model", folder / "whole/checkpoint-4", "--file",
                                            folder / "pairs-test.csv", "--text-column", "positive"});
  EXPECT_EQ(predicted.code, 0) << predicted.err;
  const CommandWords of_pairs{
      "predict", "--model", folder / "whole/checkpoint-4", "--file", folder / "pairs-test.csv", "--text-column",
      "anchor",  "positive"};
  EXPECT_TRUE(
      says(run_command(of_pairs).err, "the line is a pair of texts, but each vector is computed from one text"));
  const ProgramEnd verified = run_command({"verify", "--model", folder / "whole/checkpoint-4"});
  EXPECT_TRUE(says(verified.err, "has no loss of its own to verify")) << verified.err;
}

TEST(SentenceEmbedding, LearnsScoresOfPairs) {
  const TemporaryFolder folder;
  std::string csv = "sentence1,sentence2,score\n";
  for (int copy = 0; copy < 6; ++copy) {
    csv += "good food,fine food,0.9\ngood food,late train,0.1\ncold fish,late train,0.2\nfair price,good price,1\n";
  }
  write_file_atomically(folder / "scores.csv", csv);
  const ProgramEnd end = run_command({"train",
                                      "--task",
                                      "sentence-embedding",
                                      "--model",
                                      "bert-tiny",
                                      "--tokenizer",
                                      kShipped + "reviews-vocab",
                                      "--train-file",
                                      folder / "scores.csv",
                                      "--validation-file",
                                      folder / "scores.csv",
                                      "--per-device-train-batch-size",
                                      "16",
                                      "--max-steps",
                                      "30",
                                      "--learning-rate",
                                      "1e-3",
                                      "--save-strategy",
                                      "no",
                                      "--output-dir",
                                      folder / "out"});
  ASSERT_EQ(end.code, 0) << end.out << end.err;
  EXPECT_GT(eval_result(folder / "out", "eval_spearman_cosine"), 0.8);
  EXPECT_GT(eval_result(folder / "out", "eval_pearson_cosine"), 0.9);
}

TEST(SentenceEmbedding, RefusesWhatItCannotLearnFrom) {
  const TemporaryFolder folder;
  const auto refuses = [&](const std::string& csv, const std::vector<std::string>& flags, const std::string& text) {
    write_file_atomically(folder / "rows.csv", csv);
    CommandWords words{"train",
                       "--task",
                       "sentence-embedding",
                       "--model",
                       "bert-tiny",
                       "--tokenizer",
                       kShipped + "reviews-vocab",
                       "--train-file",
                       folder / "rows.csv",
                       "--output-dir",
                       folder / "out"};
    words.insert(words.end(), flags.begin(), flags.end());
    const ProgramEnd end = run_command(words);
    EXPECT_NE(end.code, 0) << end.out;
    EXPECT_NE(end.err.find(text), std::string::npos) << end.err;
  };
  refuses("a,b\ngood,fine\n", {}, "the text column is unknown; the columns are a, b");
  refuses("text,b\ngood,fine\n", {"--text-column", "text"}, "there is only one text column, \"text\"");
  refuses("sentence1,sentence2,score\ngood,fine,4.5\n", {}, "the label \"4.5\" is not a number from -1 to 1");
  refuses("anchor,positive,negative,score\ngood,fine,bad,0.5\n", {}, "3 text columns for the label \"score\"");
  refuses("anchor,positive\ngood,fine\nbad,late\n", {"--per-device-train-batch-size", "1"}, "has no negatives");
  refuses("anchor,positive\ngood,fine\n", {"--label-smoothing-factor", "0.1"}, "--label-smoothing-factor");
  refuses("anchor,positive\ngood,fine\nbad,late\n", {"--replicas", "2"}, "whose loss compares the samples of a batch");
  refuses("anchor,positive\ngood,fine\n", {"--metrics", "f1"},
          "--metrics cannot be combined with --task sentence-embedding");
}

}  // namespace
}  // namespace lockstep
